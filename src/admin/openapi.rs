//! The API document (OpenAPI 3.1), made from the table of routes and the wire types.

pub mod examples;
mod values;

use std::sync::OnceLock;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::Components;
use utoipa::openapi::Content;
use utoipa::openapi::HttpMethod;
use utoipa::openapi::Info;
use utoipa::openapi::OpenApi;
use utoipa::openapi::Paths;
use utoipa::openapi::Ref;
use utoipa::openapi::RefOr;
use utoipa::openapi::Required;
use utoipa::openapi::Response;
use utoipa::openapi::Schema;
use utoipa::openapi::path::Operation;
use utoipa::openapi::path::OperationBuilder;
use utoipa::openapi::path::ParameterBuilder;
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::schema::ObjectBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::ApiKey;
use utoipa::openapi::security::ApiKeyValue;
use utoipa::openapi::security::HttpAuthScheme;
use utoipa::openapi::security::HttpBuilder;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::security::SecurityScheme;

use self::examples::Example;
use self::examples::examples;
use super::call::Answer;
use super::call::Call;
use super::call::text;
use super::dashboard::assets;
use super::edge::PATH_PARAMETER_BYTES_MAX;
use super::resource::config::ConfigTrial;
use super::routes::Access;
use super::routes::DRY_RUN;
use super::routes::IF_MATCH;
use super::routes::IF_NONE_MATCH;
use super::routes::Media;
use super::routes::Route;
use super::routes::failure;
use super::routes::routes;
use crate::access::cookie::Cookie;
use crate::access::cookie::CookieStyle;

/// The ways to authenticate, of which a call takes one, by their names in the document.
const CREDENTIALS: [&str; 5] = ["api_key", "api_token", "bearer", "session", "session_loopback"];

/// A wire type, as the document needs it.
#[derive(Clone, Copy)]
pub struct SchemaOf {
    name: fn() -> String,
    collect: fn(&mut Vec<(String, RefOr<Schema>)>),
}

/// An OpenAPI document; its own specification says what is in it.
#[derive(Serialize, ToSchema)]
pub struct ApiDocument {
    /// The version of OpenAPI: `3.1.0`.
    pub openapi: String,
    /// The title, and the gateway's version.
    #[schema(value_type = Object)]
    pub info: Value,
    /// The operations, by path and method.
    #[schema(value_type = Object)]
    pub paths: Value,
    /// The types and the ways to authenticate, by name.
    #[schema(value_type = Object)]
    pub components: Value,
}

/// Returns a wire type, as the document needs it.
pub fn schema<T: ToSchema>() -> SchemaOf {
    SchemaOf {
        name: || T::name().into_owned(),
        collect: |all| {
            T::schemas(all);
            all.push((T::name().into_owned(), T::schema()));
        },
    }
}

/// Returns a list of a wire type, as the document needs it: under a name of its own, for all lists have the same.
pub fn list<T: ToSchema>() -> SchemaOf {
    SchemaOf {
        name: || format!("{}List", T::name()),
        collect: |all| {
            (schema::<T>().collect)(all);
            let items = ArrayBuilder::new().items(Ref::from_schema_name(T::name())).build();
            all.push((format!("{}List", T::name()), RefOr::T(Schema::Array(items))));
        },
    }
}

/// `GET /openapi.json`.
pub async fn serve(call: Call) -> Answer {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let version = &call.office.facts.build.version;
    let document = DOCUMENT.get_or_init(|| document(version).to_json().unwrap_or_default());
    text("application/json", document.clone())
}

/// Returns the document of a release.
pub fn document(version: &str) -> OpenApi {
    let mut paths = Paths::new();
    let (mut schemas, examples) = (Vec::new(), examples());
    (failure().collect)(&mut schemas);
    for route in routes() {
        let refusals = route.refusals.iter().map(|(_, body)| *body);
        for wanted in [route.request, route.response].into_iter().flatten().chain(refusals) {
            (wanted.collect)(&mut schemas);
        }
        let example = examples.get(&format!("{} {}", route.method, route.path)).cloned().unwrap_or_default();
        paths.add_path_operation(route.path, vec![method(&route)], operation(&route, example));
    }
    let mut info = Info::new("Portcullis management API", version);
    info.description = Some("Scanning, configuration, audit and state of a Portcullis gateway.".to_owned());
    let mut document = OpenApi::new(info, paths);
    document.components = Some(components(schemas));
    document
}

fn components(schemas: Vec<(String, RefOr<Schema>)>) -> Components {
    let mut components = Components::new();
    components.schemas.extend(schemas.into_iter().map(|(name, mut schema)| {
        values::tell(&name, &mut schema);
        (name, schema)
    }));
    let schemes = [
        header("X-API-Key", "An API key, or the token of a local user."),
        header("X-API-Token", "The same in another header field."),
        bearer("The same as a bearer token."),
        session(CookieStyle::Secure, "A session that began at /login, over HTTPS."),
        session(
            CookieStyle::Loopback,
            "The same over plain HTTP, on this machine, as the gateway is shipped.",
        ),
    ];
    CREDENTIALS
        .into_iter()
        .zip(schemes)
        .for_each(|(name, scheme)| components.add_security_scheme(name, scheme));
    components
}

fn header(name: &str, description: &str) -> SecurityScheme {
    SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(name, description)))
}

fn bearer(description: &str) -> SecurityScheme {
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description));
    SecurityScheme::Http(scheme.build())
}

fn session(style: CookieStyle, description: &str) -> SecurityScheme {
    let cookie = ApiKeyValue::with_description(Cookie::Session.name(style), description.to_owned());
    SecurityScheme::ApiKey(ApiKey::Cookie(cookie))
}

fn method(route: &Route) -> HttpMethod {
    match route.method.as_str() {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(route: &Route, example: Example) -> Operation {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(operation_id(route)))
        .summary(Some(route.summary))
        .response(route.success.to_string(), success(route, example.response));
    if let Some(request) = route.request {
        let body = RequestBodyBuilder::new().required(Some(Required::True));
        let mut content = content(request);
        content.example = example.request;
        let media = if route.takes_form { "application/x-www-form-urlencoded" } else { "application/json" };
        operation = operation.request_body(Some(body.content(media, content).build()));
    }
    for name in parameters(route.path) {
        operation = operation.parameter(parameter(route.path, name, ParameterIn::Path, Required::True));
    }
    let fields = route.fields.iter().map(|name| (name, ParameterIn::Header));
    for (name, place) in route.query.iter().map(|name| (name, ParameterIn::Query)).chain(fields) {
        operation = operation.parameter(parameter(route.path, name, place, Required::False));
    }
    if route.success == 201 && route.query.contains(&DRY_RUN) {
        operation = operation.response("200", trial());
    }
    if route.fields.contains(&IF_NONE_MATCH) {
        operation = operation.response("304", Response::new("the caller has it already"));
    }
    for (status, meaning) in failures(route) {
        let mut response = Response::new(meaning);
        response.content.insert("application/json".to_owned(), refusal(route, status).into());
        if route.takes_form && route.media == Media::Html {
            response.content.insert("text/html".to_owned(), text_content().into());
        }
        operation = operation.response(status, response);
    }
    if route.media == Media::Html && route.success == 200 {
        let mut refusal = Response::new("the role does not see the page");
        refusal.content.insert("text/html".to_owned(), text_content().into());
        operation = operation.response("303", Response::new("leads on")).response("403", refusal);
    }
    if route.access != Access::Public {
        let nothing: [&str; 0] = [];
        let requirements = CREDENTIALS.map(|name| SecurityRequirement::new(name, nothing));
        operation = requirements.into_iter().fold(operation, OperationBuilder::security);
    }
    operation.build()
}

fn success(route: &Route, example: Option<Value>) -> Response {
    if route.success == 303 {
        // It has no body: where it leads is in its head.
        return Response::new("leads on");
    }
    let mut response = Response::new("success");
    let contents = match (route.media, route.response) {
        (Media::Json, Some(answer)) => {
            let mut content = content(answer);
            content.example = example;
            vec![("application/json", content)]
        }
        // Its status says all.
        (Media::Json, None) => Vec::new(),
        (Media::Metrics, _) => vec![("text/plain", text_content())],
        (Media::EventStream, _) => vec![("text/event-stream", text_content())],
        (Media::Html, _) => vec![("text/html", text_content())],
        (Media::Asset, _) => {
            assets::MEDIA.iter().map(|(_, media)| (essence(media), text_content())).collect()
        }
        (Media::SamlMetadata, _) => vec![("application/samlmetadata+xml", text_content())],
        (Media::Lines, _) => vec![("application/x-ndjson", text_content())],
    };
    let others = route.others.iter().map(|media| (*media, text_content()));
    for (media, content) in contents.into_iter().chain(others) {
        response.content.insert(media.to_owned(), content.into());
    }
    response
}

/// Returns the answer to what would create something, and is only tried.
fn trial() -> Response {
    let mut content = content(schema::<ConfigTrial>());
    content.example = examples().remove("PUT /api/v1/config").and_then(|example| example.response);
    let mut response = Response::new("it was only tried (`dry_run=true`)");
    response.content.insert("application/json".to_owned(), content.into());
    response
}

/// Returns a media type without its parameters.
fn essence(media: &'static str) -> &'static str {
    media.split_once(';').map_or(media, |(essence, _)| essence)
}

/// Returns what else an operation may answer: what its row tells, and what every call may meet at the edge.
fn failures(route: &Route) -> Vec<(&'static str, &'static str)> {
    let is_public = route.access == Access::Public;
    let writes = route.method != http::Method::GET;
    let mut failures = vec![
        ("400", "malformed: the body, a parameter, the Host, or two different credentials"),
        ("421", "the Host is no name of this gateway"),
        ("429", "rate limit exceeded, or too many requests at once"),
        ("500", "internal server error"),
        ("503", "degraded, or busy"),
    ];
    // A public call that takes a name and a password may find them wrong.
    if !is_public || route.request.is_some() {
        failures.push(("401", "missing or invalid authentication"));
    }
    if !is_public || writes {
        failures
            .push(("403", "the role of the credential does not allow it, or a page of another origin asks"));
    }
    // Rows may be named in bodies too, and single sign-on may not be configured.
    if route.path.contains('{') || writes || route.success == 303 || route.may_be_missing {
        failures.push(("404", "nothing has this name"));
    }
    if writes {
        failures.push(("408", "the body took too long"));
        failures.push(("409", "what is there already does not allow it"));
        failures.push(("413", "the body, or what is in it, is too large"));
        failures.push(("415", "the body is in a content coding, which is not read here"));
    }
    if route.fields.contains(&IF_MATCH) {
        failures.push(("412", "it changed since it was read"));
    }
    failures
}

/// Returns the body of a refusal: that of every error, or the one of this operation.
fn refusal(route: &Route, status: &str) -> Content {
    let own = route.refusals.iter().filter(|(own, _)| own.to_string() == status).map(|(_, body)| *body);
    let own: Vec<SchemaOf> = own.collect();
    if own.is_empty() {
        return content(failure());
    }
    let bodies = own.into_iter().chain([failure()]);
    let any = bodies.fold(AnyOfBuilder::new(), |any, body| any.item(Ref::from_schema_name((body.name)())));
    Content::new(Some(Schema::AnyOf(any.build())))
}

fn content(wanted: SchemaOf) -> Content {
    Content::new(Some(RefOr::Ref::<Schema>(Ref::from_schema_name((wanted.name)()))))
}

fn text_content() -> Content {
    Content::new(Some(ObjectBuilder::new().schema_type(Type::String).build()))
}

fn parameter(
    path: &str,
    name: &str,
    place: ParameterIn,
    required: Required,
) -> utoipa::openapi::path::Parameter {
    let words = values::of_parameter(path, name).filter(|_| place == ParameterIn::Query);
    let schema = ObjectBuilder::new().enum_values(words);
    let schema = match (name, &place) {
        ("limit", _) => schema.schema_type(Type::Integer).minimum(Some(1)).maximum(Some(1000)),
        ("dry_run" | "explain" | "active" | "archived", _) => schema.schema_type(Type::Boolean),
        (_, ParameterIn::Path) => {
            schema.schema_type(Type::String).min_length(Some(1)).max_length(Some(PATH_PARAMETER_BYTES_MAX))
        }
        _ => schema.schema_type(Type::String),
    };
    ParameterBuilder::new().name(name).parameter_in(place).required(required).schema(Some(schema)).build()
}

fn parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn operation_id(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(route.method.as_str().to_ascii_lowercase(), |id, word| format!("{id}_{word}"))
}
