//! What several resources write the same way.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::de::Error;
use serde::de::MapAccess;
use serde::de::SeqAccess;
use serde::de::Visitor;
use serde::de::value::MapAccessDeserializer;
use serde_json::Map;
use serde_json::Value;
use utoipa::ToSchema;

use crate::scan::threat::Confidence;

/// The body of every error.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "error": "name: expected 1 to 128 characters" }))]
pub struct Failure {
    /// What is wrong, in a sentence.
    pub error: String,
    /// All that is wrong, where it is more than one thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<String>>,
    /// The profiles there are, where another was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_profiles: Option<Vec<String>>,
    /// The policies there are, where another was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_policies: Option<Vec<String>>,
    /// The dialects there are, where another was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_dialects: Option<Vec<String>>,
    /// The models there are, where another was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_models: Option<Vec<String>>,
    /// The frameworks there are, where another was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_frameworks: Option<Vec<String>>,
    /// The checks there are, where another was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_checks: Option<Vec<String>>,
}

/// Tells a field that is null from one that is absent: `Some(None)` from `None`.
///
/// # Errors
/// It is something else than a text.
pub fn given<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(input).map(Some)
}

/// What is written as an object: serde reads a shape of named fields from an array, too, the fields in their order.
struct Named<T>(T);

/// Reads [`Named`].
struct NamedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
    type Value = Named<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Named<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Named)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_map(NamedVisitor(PhantomData))
    }
}

/// Reads a field that is an object, never an array.
///
/// # Errors
/// It is something else, or has other fields.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Named::deserialize(input).map(|named| named.0)
}

/// Reads a field that is null or an object.
///
/// # Errors
/// As [`object`].
pub fn object_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> Result<Option<T>, D::Error> {
    let read = Option::<Named<T>>::deserialize(input)?;
    Ok(read.map(|named| named.0))
}

/// Reads a field that is a list of objects.
///
/// # Errors
/// As [`object`].
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    let read = Vec::<Named<T>>::deserialize(input)?;
    Ok(read.into_iter().map(|named| named.0).collect())
}

/// Any JSON in which no object has a name twice.
pub struct Single(pub Value);

/// Reads [`Single`].
struct SingleVisitor;

impl<'de> Visitor<'de> for SingleVisitor {
    type Value = Single;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Single, E> {
        Ok(Single(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Single, E> {
        Ok(Single(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Single, E> {
        Ok(Single(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Single, E> {
        Ok(Single(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Single, E> {
        Ok(Single(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Single, E> {
        Ok(Single(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Single, A::Error> {
        let mut values = Vec::new();
        while let Some(Single(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Single(values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Single, A::Error> {
        let mut values = Map::new();
        while let Some((name, Single(value))) = object.next_entry::<String, _>()? {
            if values.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate name"));
            }
        }
        Ok(Single(values.into()))
    }
}

impl<'de> Deserialize<'de> for Single {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(SingleVisitor)
    }
}

/// Returns the name of a threshold.
pub fn threshold(confidence: Confidence) -> &'static str {
    match confidence {
        low if low < Confidence::MEDIUM => "low",
        medium if medium < Confidence::HIGH => "medium",
        _ => "high",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Point {
        x: u8,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Body {
        #[serde(deserialize_with = "object")]
        one: Point,
        #[serde(default, deserialize_with = "object_or_null")]
        perhaps: Option<Point>,
        #[serde(deserialize_with = "objects")]
        several: Vec<Point>,
    }

    #[test]
    fn a_name_is_there_once_however_deep() {
        let read = |text: &str| serde_json::from_str::<Single>(text).map(|single| single.0);
        for text in [r#"{"a":[1,-2,0.5,true,null,"x",{"a":{"a":1}}],"b":{}}"#, "[]", "null"] {
            assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
        for wrong in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"b":2,"\u0061":3}}]"#] {
            assert!(read(wrong).unwrap_err().to_string().starts_with("duplicate name"), "{wrong}");
        }
    }

    #[test]
    fn an_array_is_no_object() {
        let read = |text: &str| serde_json::from_str::<Body>(text).map_err(|error| error.to_string());
        let point = |x| Point { x };
        let body = Body { one: point(1), perhaps: None, several: vec![point(2)] };
        assert_eq!(read(r#"{"one":{"x":1},"several":[{"x":2}]}"#), Ok(body));
        for wrong in [
            r#"{"one":[1],"several":[]}"#,
            r#"{"one":{"x":1},"several":[[2]]}"#,
            r#"{"one":{"x":1},"perhaps":[3],"several":[]}"#,
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("sequence, expected an object at line 1"), "{error}");
        }
        assert!(read(r#"{"one":{"y":1},"several":[]}"#).unwrap_err().contains("unknown field"));
    }
}
