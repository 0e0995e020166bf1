//! `portcullis key`: lists, makes, replaces and revokes the API keys of a running gateway.
//!
//! A key that was made stands alone on standard output, so that a script can keep it; all else goes to people.

use std::process::ExitCode;

use clap::Args;
use clap::Subcommand;
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use super::api::Api;
use super::api::ApiArguments;
use super::api::ApiFault;
use super::complain;
use super::say;

const KEYS: &str = "/api/v1/keys";
/// How long the text before counts on: an answer that is lost must not leave a key without any text that is known.
const OVERLAP_S: u64 = 300;

/// What to do with API keys.
#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// List the keys there are; no key itself is ever shown again.
    List {
        #[command(flatten)]
        api: ApiArguments,
        /// Print the gateway's answer, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Make a key and print it, once.
    Create(CreateArguments),
    /// Replace the text of a key and print the new one, once.
    Rotate {
        #[command(flatten)]
        api: ApiArguments,
        /// The key's id, as `list` shows it.
        id: KeyId,
        /// How long the text before goes on counting, in seconds.
        #[arg(long, default_value_t = OVERLAP_S, value_name = "SECONDS")]
        overlap: u64,
    },
    /// Revoke a key: it counts no more.
    Revoke {
        #[command(flatten)]
        api: ApiArguments,
        /// The key's id, as `list` shows it.
        id: KeyId,
    },
}

/// What a new key is to be.
#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    #[command(flatten)]
    api: ApiArguments,
    /// A name for people.
    #[arg(long)]
    name: String,
    /// admin, operator, auditor, analyst, service or agent.
    #[arg(long)]
    role: String,
    /// The deployment's tier or below; without it, as much as the deployment, also when that changes.
    #[arg(long)]
    tier: Option<String>,
    /// When it stops counting, in RFC 3339 with an offset, such as 2027-12-31T00:00:00Z.
    #[arg(long, value_name = "MOMENT")]
    expires_at: Option<String>,
    /// A provider route it may use, by name or glob; may be repeated; without one, all.
    #[arg(long = "route", value_name = "NAME")]
    routes: Vec<String>,
    /// A model it may ask for, likewise.
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,
    /// A tool it may offer, choose or call, likewise.
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
}

/// The id of a key, which is part of a path.
#[derive(Clone, Debug)]
pub(super) struct KeyId(String);

impl std::str::FromStr for KeyId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        match !text.is_empty() && text.bytes().all(fits) {
            true => Ok(Self(text.to_owned())),
            false => Err("expected an id as `portcullis key list` shows it"),
        }
    }
}

/// What is shown of a key.
#[derive(Deserialize)]
struct Entry {
    id: String,
    name: String,
    role: String,
    tier: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
}

#[derive(Deserialize)]
struct Listed {
    keys: Vec<Entry>,
}

#[derive(Deserialize)]
struct Made {
    #[serde(flatten)]
    entry: Entry,
    key: String,
}

/// Runs one of the commands.
pub(super) fn run(command: &KeyCommand) -> ExitCode {
    let done = match command {
        KeyCommand::List { api, json } => list(api, *json),
        KeyCommand::Create(arguments) => create(arguments),
        KeyCommand::Rotate { api, id, overlap } => {
            made(api, &format!("{KEYS}/{}/rotate", id.0), &json!({ "overlap_s": overlap }))
        }
        KeyCommand::Revoke { api, id } => revoke(api, id),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            complain(&fault.to_string());
            ExitCode::FAILURE
        }
    }
}

fn list(arguments: &ApiArguments, json: bool) -> Result<(), ApiFault> {
    let api = Api::of(arguments)?;
    let text = api.call(Method::GET, KEYS, None)?;
    if json {
        say(text.trim_end());
        return Ok(());
    }
    let Listed { keys } = serde_json::from_str(&text).map_err(|_| api.unreadable(KEYS))?;
    say(&format!("{:<28} {:<24} {:<10} {:<14} {:<20} LAST USED", "ID", "NAME", "ROLE", "TIER", "EXPIRES"));
    for Entry { id, name, role, tier, expires_at, last_used_at } in keys {
        let moment = |moment: Option<String>| moment.unwrap_or_else(|| "never".to_owned());
        let (expires, used) = (moment(expires_at), moment(last_used_at));
        say(&format!("{id:<28} {name:<24} {role:<10} {tier:<14} {expires:<20} {used}"));
    }
    Ok(())
}

fn create(arguments: &CreateArguments) -> Result<(), ApiFault> {
    let CreateArguments { api, name, role, tier, expires_at, routes, models, tools } = arguments;
    let wanted = json!({
        "name": name, "role": role, "tier": tier, "expires_at": expires_at,
        "routes": routes, "models": models, "tools": tools,
    });
    made(api, KEYS, &wanted)
}

/// Lets a key be made, and prints it.
fn made(arguments: &ApiArguments, path: &str, wanted: &Value) -> Result<(), ApiFault> {
    let api = Api::of(arguments)?;
    let text = api.call(Method::POST, path, Some(wanted))?;
    let Made { entry, key } = serde_json::from_str(&text).map_err(|_| api.unreadable(path))?;
    say(&key);
    complain(&format!("key {} ({}, {}): it is never shown again", entry.id, entry.name, entry.role));
    Ok(())
}

fn revoke(arguments: &ApiArguments, id: &KeyId) -> Result<(), ApiFault> {
    let api = Api::of(arguments)?;
    api.call(Method::DELETE, &format!("{KEYS}/{}", id.0), None)?;
    say(&format!("key {} is revoked", id.0));
    Ok(())
}
