//! A tiny transformer as exporters write it: shapes that are reckoned at run time, a mask, attention, the first token.

use super::fixture::FLOAT;
use super::fixture::GraphProto;
use super::fixture::INT64;
use super::fixture::ModelProto;
use super::fixture::NodeProto;
use super::fixture::Size;
use super::fixture::TensorProto;
use super::fixture::Value;
use super::fixture::floats;
use super::fixture::input;
use super::fixture::longs;
use super::fixture::model;
use super::fixture::node;

const WIDTH: i64 = 8;
const HEADS: i64 = 2;
/// How many tokens it knows.
pub const VOCABULARY: i64 = 32;
/// The most tokens it reads at once.
pub const PLACES: i64 = 64;

/// A graph that is being written.
#[derive(Default)]
struct Writer {
    nodes: Vec<NodeProto>,
    known: Vec<TensorProto>,
    drawn: u32,
}

impl Writer {
    fn step(&mut self, op_type: &str, inputs: &[&str], output: &str, attributes: &[(&str, Value<'_>)]) {
        self.nodes.push(node(op_type, inputs, output, attributes));
    }

    /// Adds weights that look drawn and are always the same.
    fn weights(&mut self, name: &str, dims: &[i64]) {
        let count = dims.iter().product::<i64>();
        let drawn = (0..count).map(|_| {
            self.drawn = self.drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.drawn >> 16) as f32 / 65_536.0 - 0.5
        });
        let drawn = drawn.collect();
        self.known.push(floats(name, dims, drawn));
    }

    fn number(&mut self, name: &str, number: f32) {
        self.known.push(floats(name, &[1], vec![number]));
    }

    fn linear(&mut self, from: &str, to: &str, dims: [i64; 2]) {
        let (weights, biases, sum) = (format!("{to}.w"), format!("{to}.b"), format!("{to}.sum"));
        self.weights(&weights, &dims);
        self.weights(&biases, &dims[1..]);
        self.step("MatMul", &[from, &weights], &sum, &[]);
        self.step("Add", &[&biases, &sum], to, &[]);
    }

    /// Adds a norm over the last axis, in its nine steps.
    fn norm(&mut self, from: &str, to: &str) {
        let name = |step: &str| format!("{to}.{step}");
        let [mean, off, square, spread, safe, root, even, scaled, gamma, beta] =
            ["mean", "off", "square", "spread", "safe", "root", "even", "scaled", "gamma", "beta"].map(name);
        self.weights(&gamma, &[WIDTH]);
        self.weights(&beta, &[WIDTH]);
        self.step("ReduceMean", &[from], &mean, &[("axes", Value::Ints(&[-1]))]);
        self.step("Sub", &[from, &mean], &off, &[]);
        self.step("Pow", &[&off, "two"], &square, &[]);
        self.step("ReduceMean", &[&square], &spread, &[("axes", Value::Ints(&[-1]))]);
        self.step("Add", &[&spread, "tiny"], &safe, &[]);
        self.step("Sqrt", &[&safe], &root, &[]);
        self.step("Div", &[&off, &root], &even, &[]);
        self.step("Mul", &[&even, &gamma], &scaled, &[]);
        self.step("Add", &[&scaled, &beta], to, &[]);
    }

    /// Adds a new shape whose first two sizes are those of a value, reckoned when it is run.
    fn reshape(&mut self, from: &str, to: &str, rest: &[i64]) {
        let [shape, batch, tokens, rows, columns, end, whole] =
            ["shape", "batch", "tokens", "rows", "columns", "end", "whole"]
                .map(|step| format!("{to}.{step}"));
        self.known.push(longs(&end, &[rest.len() as i64], rest.to_vec()));
        self.step("Shape", &[from], &shape, &[]);
        self.step("Gather", &[&shape, "first"], &batch, &[]);
        self.step("Gather", &[&shape, "second"], &tokens, &[]);
        self.step("Unsqueeze", &[&batch, "front"], &rows, &[]);
        self.step("Unsqueeze", &[&tokens, "front"], &columns, &[]);
        self.step("Concat", &[&rows, &columns, &end], &whole, &[("axis", Value::Int(0))]);
        self.step("Reshape", &[from, &whole], to, &[]);
    }

    fn heads(&mut self, from: &str, to: &str, order: &[i64]) {
        let (flat, apart) = (format!("{to}.flat"), format!("{to}.apart"));
        self.linear(from, &flat, [WIDTH, WIDTH]);
        self.reshape(&flat, &apart, &[HEADS, WIDTH / HEADS]);
        self.step("Transpose", &[&apart], to, &[("perm", Value::Ints(order))]);
    }
}

/// Writes a transformer of one layer and two classes.
pub fn transformer() -> ModelProto {
    let mut writer = Writer::default();
    for (name, number) in [("two", 2.0), ("tiny", 1e-5), ("one", 1.0), ("far", -10_000.0), ("half", 0.5)] {
        writer.number(name, number);
    }
    writer.number("root_of_two", std::f32::consts::SQRT_2);
    for (name, numbers) in [("front", vec![0]), ("back", vec![1]), ("middle", vec![1, 2])] {
        writer.known.push(longs(name, &[numbers.len() as i64], numbers));
    }
    writer.known.push(longs("first", &[], vec![0]));
    writer.known.push(longs("second", &[], vec![1]));
    writer.known.push(longs("places", &[1, PLACES], (0..PLACES).collect()));
    writer.weights("words", &[VOCABULARY, WIDTH]);
    writer.weights("order", &[PLACES, WIDTH]);

    writer.step("Shape", &["input_ids"], "asked", &[]);
    writer.step("Gather", &["asked", "second"], "count", &[]);
    writer.step("Unsqueeze", &["count", "front"], "until", &[]);
    writer.step("Slice", &["places", "front", "until", "back"], "taken", &[]);
    writer.step("Gather", &["words", "input_ids"], "said", &[]);
    writer.step("Gather", &["order", "taken"], "placed", &[]);
    writer.step("Add", &["said", "placed"], "embedded", &[]);
    writer.norm("embedded", "begun");

    writer.step("Unsqueeze", &["attention_mask", "middle"], "wide", &[]);
    writer.step("Cast", &["wide"], "real", &[("to", Value::Int(FLOAT.into()))]);
    writer.step("Sub", &["one", "real"], "missing", &[]);
    writer.step("Mul", &["missing", "far"], "hidden", &[]);
    writer.heads("begun", "query", &[0, 2, 1, 3]);
    writer.heads("begun", "key", &[0, 2, 3, 1]);
    writer.heads("begun", "value", &[0, 2, 1, 3]);
    writer.step("MatMul", &["query", "key"], "alike", &[]);
    writer.step("Div", &["alike", "two"], "even", &[]);
    writer.step("Add", &["even", "hidden"], "seen", &[]);
    writer.step("Softmax", &["seen"], "looks", &[("axis", Value::Int(-1))]);
    writer.step("MatMul", &["looks", "value"], "heard", &[]);
    writer.step("Transpose", &["heard"], "together", &[("perm", Value::Ints(&[0, 2, 1, 3]))]);
    writer.reshape("together", "joined", &[WIDTH]);
    writer.linear("joined", "told", [WIDTH, WIDTH]);
    writer.step("Add", &["told", "begun"], "both", &[]);
    writer.norm("both", "known");

    writer.linear("known", "broad", [WIDTH, 2 * WIDTH]);
    writer.step("Div", &["broad", "root_of_two"], "less", &[]);
    writer.step("Erf", &["less"], "bent", &[]);
    writer.step("Add", &["bent", "one"], "lifted", &[]);
    writer.step("Mul", &["broad", "lifted"], "doubled", &[]);
    writer.step("Mul", &["doubled", "half"], "thought", &[]);
    writer.linear("thought", "narrow", [2 * WIDTH, WIDTH]);
    writer.step("Add", &["narrow", "known"], "more", &[]);
    writer.norm("more", "ended");

    writer.step("Gather", &["ended", "first"], "mark", &[("axis", Value::Int(1))]);
    writer.linear("mark", "pooled", [WIDTH, WIDTH]);
    writer.step("Tanh", &["pooled"], "bounded", &[]);
    writer.weights("classes.w", &[2, WIDTH]);
    writer.weights("classes.b", &[2]);
    let turned = [("transB", Value::Int(1))];
    writer.step("Gemm", &["bounded", "classes.w", "classes.b"], "logits", &turned);

    let any = [Size::Named("batch_size"), Size::Named("sequence_length")];
    model(GraphProto {
        name: "transformer".to_owned(),
        node: writer.nodes,
        initializer: writer.known,
        input: vec![input("input_ids", INT64, &any), input("attention_mask", INT64, &any)],
        output: vec![input("logits", FLOAT, &[Size::Named("batch_size"), Size::Always(2)])],
    })
}
