//! `portcullis license`: makes keys and licences, and shows what a licence says.

use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json;

use super::complain;
use super::say;
use crate::access::jose::SigningKey;
use crate::access::license::License;
use crate::access::license::LicenseConfig;
use crate::access::license::LicenseFault;
use crate::access::license::Licensing;
use crate::access::secret::write_private;
use crate::access::tier::Tier;
use crate::clock::Clock;
use crate::clock::SystemClock;

/// The longest licence file that is read.
const LICENSE_BYTES_MAX: u64 = 64 * 1024;

/// What to do with licences.
#[derive(Debug, Subcommand)]
pub enum LicenseCommand {
    /// Make an Ed25519 key pair: the private key signs licences, the public key is what gateways trust.
    Keygen {
        /// Where to write the private key (mode 0600); must not exist.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Where to write the public key; must not exist.
        #[arg(long, value_name = "FILE")]
        public: PathBuf,
    },
    /// Sign a licence and print it.
    Issue(IssueArguments),
    /// Show what a licence says, and whether it counts.
    Inspect {
        /// The file that holds the licence.
        file: PathBuf,
        /// Public keys that may have signed it; without one, nothing is verified.
        #[arg(long = "trusted", value_name = "FILE")]
        trusted: Vec<PathBuf>,
    },
}

/// What a new licence says.
#[derive(Debug, Args)]
pub struct IssueArguments {
    /// The private key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Whose licence it is.
    #[arg(long, value_name = "NAME")]
    subject: String,
    /// community, developer, professional or enterprise.
    #[arg(long)]
    tier: Tier,
    /// When it ends, in RFC 3339 with an offset, such as 2027-12-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    expires: Timestamp,
    /// When it begins; without it, now.
    #[arg(long, value_name = "TIME")]
    not_before: Option<Timestamp>,
    /// The one agent it is for; without it, it is for a deployment.
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Something it entitles to beside its tier; may be repeated.
    #[arg(long = "feature", value_name = "NAME")]
    features: Vec<String>,
}

/// Runs one of the commands.
pub fn run(command: &LicenseCommand) -> ExitCode {
    let outcome = match command {
        LicenseCommand::Keygen { key, public } => keygen(key, public),
        LicenseCommand::Issue(arguments) => issue(arguments),
        LicenseCommand::Inspect { file, trusted } => inspect(file, trusted),
    };
    match outcome {
        Ok(code) => code,
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

fn keygen(key: &Path, public: &Path) -> Result<ExitCode, String> {
    let made = SigningKey::generate();
    write_private(key, made.to_pem().as_bytes()).map_err(|error| format!("{}: {error}", key.display()))?;
    let written = std::fs::File::create_new(public).and_then(|mut file| {
        file.write_all(made.public_pem().as_bytes())?;
        file.sync_all()
    });
    written.map(|()| ExitCode::SUCCESS).map_err(|error| {
        // A private key without its public half is of no use, and in the way of the next try.
        let left = std::fs::remove_file(key).err();
        let left = left.map_or(String::new(), |error| format!("; {} is left behind: {error}", key.display()));
        format!("{}: {error}{left}", public.display())
    })
}

fn issue(arguments: &IssueArguments) -> Result<ExitCode, String> {
    let pem =
        std::fs::read(&arguments.key).map_err(|error| format!("{}: {error}", arguments.key.display()))?;
    let key = SigningKey::from_pem(&pem).map_err(|error| format!("{} {error}", arguments.key.display()))?;
    let now = SystemClock.now();
    if arguments.expires <= now {
        return Err("the licence would have expired before it is issued".to_owned());
    }
    if arguments.not_before.is_some_and(|begin| arguments.expires <= begin) {
        return Err("the licence would have expired before it begins".to_owned());
    }
    if arguments.subject.trim().is_empty() {
        return Err("a licence is somebody's: --subject names nobody".to_owned());
    }
    if arguments.agent.as_deref().is_some_and(str::is_empty) {
        return Err("an agent has a name: without --agent the licence is for a deployment".to_owned());
    }
    let license = License {
        subject: arguments.subject.clone(),
        tier: arguments.tier,
        issued_at: now,
        not_before: arguments.not_before,
        expires_at: arguments.expires,
        agent: arguments.agent.clone(),
        features: arguments.features.clone(),
    };
    say(&license.sign(&key));
    Ok(ExitCode::SUCCESS)
}

fn inspect(file: &Path, trusted: &[PathBuf]) -> Result<ExitCode, String> {
    let size = std::fs::metadata(file).map_or(0, |facts| facts.len());
    if size > LICENSE_BYTES_MAX {
        return Err(format!("{}: no licence is longer than {LICENSE_BYTES_MAX} bytes", file.display()));
    }
    let token = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let license = License::unverified(&token).map_err(|fault| format!("{}: {fault}", file.display()))?;
    let verdict = (!trusted.is_empty()).then(|| verify(&token, trusted));
    say(&format!(
        "{:#}",
        json!({
            "subject": license.subject,
            "tier": license.tier.as_str(),
            "issued": license.issued_at.to_string(),
            "not_before": license.not_before.map(|begin| begin.to_string()),
            "expires": license.expires_at.to_string(),
            "agent": license.agent,
            "features": license.features,
            "verified": verdict.as_ref().is_some_and(is_signed),
            "valid": verdict.as_ref().map(Result::is_ok),
            "reason": verdict.as_ref().and_then(|it| it.as_ref().err()).map(ToString::to_string),
        })
    ));
    Ok(if matches!(verdict, Some(Err(_))) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Tells whether a trusted key has signed what was judged, be it good at this moment or not.
fn is_signed(verdict: &Result<License, LicenseFault>) -> bool {
    match verdict {
        Ok(_) | Err(LicenseFault::Expired | LicenseFault::NotYet | LicenseFault::ForAgent) => true,
        Err(LicenseFault::Malformed | LicenseFault::Forged | LicenseFault::Unreadable) => false,
    }
}

fn verify(token: &str, trusted: &[PathBuf]) -> Result<License, LicenseFault> {
    let licensing = Licensing::open(LicenseConfig { file: None, trusted_keys: trusted.to_vec() });
    licensing.verify(token, SystemClock.now())
}
