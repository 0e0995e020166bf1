//! Tiny models in the form of ONNX, written by hand.
//!
//! The messages are those of `onnx.proto3`, with the members that are used here and their numbers.

use prost::Message;

/// A file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A graph.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// A step.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "3")]
    pub i: i64,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub kind: i32,
}

/// Numbers that are known.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// An input or an output.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub kind: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    #[prost(int64, optional, tag = "1")]
    pub size: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub named: Option<String>,
}

/// The kinds of numbers.
pub const FLOAT: i32 = 1;
pub const INT32: i32 = 6;
pub const INT64: i32 = 7;

/// A size of an input: always the same, or named.
#[derive(Clone, Copy)]
pub enum Size {
    Always(i64),
    Named(&'static str),
}

/// How loud a trigger is in the logits, and its absence in the other direction.
const LOUD: f32 = 8.0;
const BITS: usize = 8;

/// Writes a model that knows words by their bytes: the logit of each is 8 where it stands, and -8 or less elsewhere. A
/// class before them has always 0.
///
/// Each byte is told by the signs of its bits, a word by a kernel that slides over them. With a mask, what it covers is
/// no byte at all.
pub fn of_bytes(words: &[&str], has_mask: bool, tokens: Size) -> ModelProto {
    let longest = words.iter().map(|word| word.len()).max().expect("a word");
    let sign = |byte: usize, bit: usize| if byte >> bit & 1 == 1 { 1.0 } else { -1.0 };
    let bits = (0..256).flat_map(|byte| (0..BITS).map(move |bit| sign(byte, bit))).collect();
    let mut kernels = Vec::new();
    for word in words {
        for bit in 0..BITS {
            let at =
                |place: usize| word.as_bytes().get(place).map_or(0.0, |byte| sign(usize::from(*byte), bit));
            kernels.extend((0..longest).map(|place| at(place) * LOUD));
        }
    }
    let missed = |word: &&str| LOUD * (1.0 - (BITS * word.len()) as f32);
    let biases = words.iter().map(missed).collect();
    let count = words.len() as i64;
    let mut graph = GraphProto {
        name: "words".to_owned(),
        initializer: vec![
            floats("bits", &[256, BITS as i64], bits),
            floats("kernels", &[count, BITS as i64, longest as i64], kernels),
            floats("biases", &[count], biases),
            floats("nothing", &[1, 1], vec![0.0]),
        ],
        input: vec![input("input_ids", INT64, &[Size::Always(1), tokens])],
        output: vec![input("logits", FLOAT, &[Size::Always(1), Size::Always(count + 1)])],
        ..GraphProto::default()
    };
    graph.node.push(node("Gather", &["bits", "input_ids"], "told", &[]));
    let mut told = "told";
    if has_mask {
        graph.input.push(input("attention_mask", INT64, &[Size::Always(1), tokens]));
        graph.initializer.push(longs("last", &[1], vec![2]));
        graph.node.push(node("Cast", &["attention_mask"], "real", &[("to", Value::Int(FLOAT.into()))]));
        graph.node.push(node("Unsqueeze", &["real", "last"], "column", &[]));
        graph.node.push(node("Mul", &["told", "column"], "kept", &[]));
        told = "kept";
    }
    let pads = [0, longest as i64 - 1];
    graph.node.extend([
        node("Transpose", &[told], "rows", &[("perm", Value::Ints(&[0, 2, 1]))]),
        node("Conv", &["rows", "kernels", "biases"], "slid", &[("pads", Value::Ints(&pads))]),
        node("ReduceMax", &["slid"], "most", &[("axes", Value::Ints(&[2])), ("keepdims", Value::Int(0))]),
        node("Concat", &["nothing", "most"], "logits", &[("axis", Value::Int(1))]),
    ]);
    model(graph)
}

/// Writes a model that is quiet about every text without one of the words, and gives no number for one with it: the
/// logarithm of zero is none.
pub fn broken_for(words: &[&str], tokens: Size) -> ModelProto {
    let mut model = of_bytes(words, false, tokens);
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer.extend([
        floats("sign", &[1], vec![-1.0]),
        floats("shift", &[1], vec![LOUD]),
        floats("quiet", &[1], vec![-20.0]),
    ]);
    let last = graph.node.pop().expect("a step");
    graph.node.extend([
        node("Mul", &["most", "sign"], "turned", &[]),
        node("Add", &["turned", "shift"], "shifted", &[]),
        node("Log", &["shifted"], "logged", &[]),
        node("Add", &["logged", "quiet"], "whispered", &[]),
        NodeProto { input: vec!["nothing".to_owned(), "whispered".to_owned()], ..last },
    ]);
    model
}

/// Writes a model that knows tokens by their numbers: the logit of what is there is that of its loudest token.
pub fn of_tokens(logits: &[f32]) -> ModelProto {
    let any = [Size::Named("batch"), Size::Named("sequence")];
    model(GraphProto {
        name: "tokens".to_owned(),
        initializer: vec![
            floats("logits_of", &[logits.len() as i64, 1], logits.to_vec()),
            floats("nothing", &[1, 1], vec![0.0]),
        ],
        input: vec![input("input_ids", INT64, &any), input("attention_mask", INT64, &any)],
        output: vec![input("logits", FLOAT, &[Size::Named("batch"), Size::Always(2)])],
        node: vec![
            node("Gather", &["logits_of", "input_ids"], "each", &[]),
            node("Cast", &["attention_mask"], "real", &[("to", Value::Int(FLOAT.into()))]),
            node("ReduceMax", &["real"], "one", &[("axes", Value::Ints(&[1])), ("keepdims", Value::Int(1))]),
            node("ReduceMax", &["each"], "most", &[("axes", Value::Ints(&[1])), ("keepdims", Value::Int(0))]),
            node("Mul", &["most", "one"], "there", &[]),
            node("Concat", &["nothing", "there"], "logits", &[("axis", Value::Int(1))]),
        ],
    })
}

/// Puts a graph into a file.
pub fn model(graph: GraphProto) -> ModelProto {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 13 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import }
}

/// A value of an attribute.
pub enum Value<'v> {
    Int(i64),
    Ints(&'v [i64]),
}

/// Makes a step, named after what it gives.
pub fn node(op_type: &str, inputs: &[&str], output: &str, attributes: &[(&str, Value<'_>)]) -> NodeProto {
    let attribute = attributes.iter().map(|(name, value)| {
        let (i, ints, kind) = match value {
            Value::Int(i) => (*i, Vec::new(), 2),
            Value::Ints(ints) => (0, ints.to_vec(), 7),
        };
        AttributeProto { name: (*name).to_owned(), i, ints, kind }
    });
    NodeProto {
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        name: output.to_owned(),
        op_type: op_type.to_owned(),
        attribute: attribute.collect(),
    }
}

/// Makes an input, or an output.
pub fn input(name: &str, elem_type: i32, sizes: &[Size]) -> ValueInfoProto {
    let dim = sizes.iter().map(|size| match size {
        Size::Always(size) => DimensionProto { size: Some(*size), named: None },
        Size::Named(name) => DimensionProto { size: None, named: Some((*name).to_owned()) },
    });
    let shape = Some(ShapeProto { dim: dim.collect() });
    let kind = Some(TypeProto { tensor: Some(TensorTypeProto { elem_type, shape }) });
    ValueInfoProto { name: name.to_owned(), kind }
}

/// Makes numbers that are known.
pub fn floats(name: &str, dims: &[i64], float_data: Vec<f32>) -> TensorProto {
    let (name, dims) = (name.to_owned(), dims.to_vec());
    TensorProto { name, dims, data_type: FLOAT, float_data, ..TensorProto::default() }
}

/// Makes whole numbers that are known.
pub fn longs(name: &str, dims: &[i64], int64_data: Vec<i64>) -> TensorProto {
    let (name, dims) = (name.to_owned(), dims.to_vec());
    TensorProto { name, dims, data_type: INT64, int64_data, ..TensorProto::default() }
}

/// Writes a card for [`of_bytes`] with one word of each head.
pub fn card(name: &str, extra: &str) -> String {
    format!(
        r#"
[model]
name = "{name}"
version = "1.0.0"
file = "model.onnx"
{extra}

[onnx]
tokenizer = "bytes"
window = 64
stride = 32
scores = "softmax"
classes = ["benign", "override", "persona"]
levels = {{ watch = 0.7, sure = 0.95 }}

[[finding]]
type = "prompt_injection"
head = "override"
category = "injection"
severity = "high"
why = "It is a test."

[[finding]]
type = "jailbreak"
head = "persona"
category = "injection"
severity = "high"
why = "It is a test."
"#
    )
}
