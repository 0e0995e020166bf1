//! A graph of ONNX, run by `tract`: numbers of tokens in, numbers of classes out.

use std::sync::Arc;

use tract_onnx::Onnx;
use tract_onnx::pb;
use tract_onnx::prelude::DatumType;
use tract_onnx::prelude::Framework;
use tract_onnx::prelude::InferenceFact;
use tract_onnx::prelude::InferenceModel;
use tract_onnx::prelude::InferenceModelExt;
use tract_onnx::prelude::IntoRunnable;
use tract_onnx::prelude::TValue;
use tract_onnx::prelude::Tensor;
use tract_onnx::prelude::ToDim;
use tract_onnx::prelude::TractResult;
use tract_onnx::prelude::TypedRunnableModel;

use super::fault::OnnxFault;
use super::fault::detail;
use super::guard::Failed;
use super::guard::guarded;
use super::settings::OnnxFile;

const MASK: &str = "attention_mask";
const TYPES: &str = "token_type_ids";

/// A graph that can be run.
#[derive(Debug)]
pub struct Graph {
    plan: Arc<TypedRunnableModel>,
    inputs: Vec<Input>,
    length: Length,
}

/// How many tokens a graph reads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As many as there are.
    Any,
    /// Always as many: what is missing is filled up.
    Fixed(usize),
}

/// A graph that was read and has its inputs and its output.
#[derive(Debug)]
pub struct Draft {
    model: InferenceModel,
    inputs: Vec<Input>,
    /// How many tokens the file says that it reads.
    declared: Option<usize>,
}

/// What an input is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fed {
    /// The numbers of the tokens.
    Ids,
    /// Whether a token is one, or only fills up the window.
    Mask,
    /// Which of two texts a token is of: always the first.
    Types,
}

#[derive(Clone, Copy, Debug)]
struct Input {
    fed: Fed,
    kind: DatumType,
}

impl Draft {
    /// Reads a file and looks for what the card names.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(file: &str, bytes: &[u8], card: &OnnxFile) -> Result<Self, OnnxFault> {
        let unreadable =
            |failed: Failed| OnnxFault::Unreadable { file: file.to_owned(), detail: detail(&failed) };
        let library = tract_onnx::onnx().with_ignore_value_info(true);
        let proto = guarded(|| library.proto_model_for_read(&mut &*bytes)).map_err(unreadable)?;
        let graph = proto.graph.as_ref().filter(|graph| !graph.output.is_empty());
        let graph = graph.ok_or_else(|| unreadable(Failed("it holds no graph with an output".to_owned())))?;
        ensure_known(file, graph, &library)?;
        let named = inputs(file, graph, card)?;
        let mut inputs = Vec::new();
        let mut declared = None;
        for (fed, name) in &named {
            let (kind, tokens) = shape(file, graph, name)?;
            if let Some(tokens) = tokens {
                if usize::try_from(tokens) != Ok(card.window) {
                    return Err(OnnxFault::Length {
                        file: file.to_owned(),
                        input: (*name).to_owned(),
                        tokens,
                    });
                }
                declared = Some(card.window);
            }
            inputs.push(Input { fed: *fed, kind });
        }
        let output = output(file, graph, card)?;
        let model = guarded(|| {
            let model = library.model_for_proto_model(&proto)?;
            model.with_input_names(named.iter().map(|(_, name)| name))?.with_outputs_by_name([output])
        });
        Ok(Self { model: model.map_err(unreadable)?, inputs, declared })
    }

    /// Returns the lengths that the graph may be made ready for, the best one first.
    pub fn lengths(&self, window: usize) -> Vec<Length> {
        match self.declared {
            Some(tokens) => vec![Length::Fixed(tokens)],
            None => vec![Length::Any, Length::Fixed(window)],
        }
    }

    /// Makes the graph ready for a length.
    ///
    /// # Errors
    /// It cannot be done.
    pub fn ready(&self, length: Length) -> Result<Graph, Failed> {
        let plan = guarded(|| self.plan(length))?;
        Ok(Graph { plan, inputs: self.inputs.clone(), length })
    }

    fn plan(&self, length: Length) -> TractResult<Arc<TypedRunnableModel>> {
        let mut model = self.model.clone();
        let tokens = match length {
            Length::Any => model.symbols.sym("portcullis_tokens").to_dim(),
            Length::Fixed(tokens) => tokens.to_dim(),
        };
        for (at, input) in self.inputs.iter().enumerate() {
            let shape = [1.to_dim(), tokens.clone()];
            model.set_input_fact(at, InferenceFact::dt_shape(input.kind, &shape))?;
        }
        model.into_optimized()?.into_runnable()
    }
}

impl Graph {
    /// Runs the graph; returns the numbers of its output.
    ///
    /// # Errors
    /// It fails.
    pub fn run(&self, ids: &[u32], pad: u32) -> Result<Vec<f32>, Failed> {
        let missing = match self.length {
            Length::Any => 0,
            Length::Fixed(tokens) => tokens.saturating_sub(ids.len()),
        };
        guarded(|| {
            let inputs = self.inputs.iter().map(|input| input.tensor(ids, pad, missing));
            let outputs = self.plan.run(inputs.collect::<TractResult<_>>()?)?;
            let numbers = outputs.first().map(|output| output.cast_to::<f32>()).transpose()?;
            let numbers = numbers.as_ref().map(|numbers| numbers.to_plain_array_view::<f32>()).transpose()?;
            TractResult::Ok(numbers.map(|numbers| numbers.iter().copied().collect()).unwrap_or_default())
        })
    }
}

impl Input {
    fn tensor(self, ids: &[u32], pad: u32, missing: usize) -> TractResult<TValue> {
        let numbers = ids.iter().map(|id| match self.fed {
            Fed::Ids => i64::from(*id),
            Fed::Mask => 1,
            Fed::Types => 0,
        });
        let fill = if self.fed == Fed::Ids { i64::from(pad) } else { 0 };
        let numbers: Vec<i64> = numbers.chain(std::iter::repeat_n(fill, missing)).collect();
        let tensor = Tensor::from_shape(&[1, numbers.len()], &numbers)?;
        Ok(tensor.cast_to_dt(self.kind)?.into_owned().into())
    }
}

/// Makes sure that all operators are known, and that nothing lies outside the file.
fn ensure_known(file: &str, graph: &pb::GraphProto, library: &Onnx) -> Result<(), OnnxFault> {
    let mut unknown = Vec::new();
    if !is_whole(graph, library, &mut unknown) {
        return Err(OnnxFault::External(file.to_owned()));
    }
    unknown.sort_unstable();
    unknown.dedup();
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(OnnxFault::Operators { file: file.to_owned(), operators: detail(&unknown.join(", ")) }),
    }
}

/// Tells whether all weights of a graph are in it, and notes the operators that nobody knows. Graphs lie in each other
/// no deeper than the reader of the file allows.
fn is_whole<'g>(graph: &'g pb::GraphProto, library: &Onnx, unknown: &mut Vec<&'g str>) -> bool {
    let is_here = |tensor: &pb::TensorProto| tensor.external_data.is_empty();
    let mut whole = graph.initializer.iter().all(is_here);
    for node in &graph.node {
        if !library.op_register.0.contains_key(&node.op_type) {
            unknown.push(&node.op_type);
        }
        for attribute in &node.attribute {
            whole &= attribute.t.iter().chain(&attribute.tensors).all(is_here);
            for graph in attribute.g.iter().chain(&attribute.graphs) {
                whole &= is_whole(graph, library, unknown);
            }
        }
    }
    whole
}

/// Returns what each input is given; weights that stand among the inputs are none.
fn inputs<'g>(
    file: &str,
    graph: &'g pb::GraphProto,
    card: &OnnxFile,
) -> Result<Vec<(Fed, &'g str)>, OnnxFault> {
    let is_weight = |name: &str| graph.initializer.iter().any(|weight| weight.name == name);
    let known: Vec<&str> =
        graph.input.iter().map(|input| input.name.as_str()).filter(|name| !is_weight(name)).collect();
    let find = |name: &str| known.iter().copied().find(|known| *known == name);
    let named = |name: &str| {
        find(name).ok_or_else(|| OnnxFault::NoInput {
            file: file.to_owned(),
            input: name.to_owned(),
            known: listed(&known),
        })
    };
    let beside = |name: &Option<String>, usual| match name {
        Some(name) => named(name).map(Some),
        None => Ok(find(usual)),
    };
    let mut given = vec![(Fed::Ids, named(&card.ids)?)];
    given.extend(beside(&card.mask, MASK)?.map(|name| (Fed::Mask, name)));
    given.extend(beside(&card.types, TYPES)?.map(|name| (Fed::Types, name)));
    match known.iter().find(|name| !given.iter().any(|(_, given)| given == *name)) {
        Some(input) => Err(OnnxFault::Input { file: file.to_owned(), input: (*input).to_owned() }),
        None => Ok(given),
    }
}

fn output<'g>(file: &str, graph: &'g pb::GraphProto, card: &OnnxFile) -> Result<&'g str, OnnxFault> {
    let known: Vec<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let made = || graph.node.iter().flat_map(|node| &node.output);
    let wanted = card.output.as_deref().or(known.first().copied()).unwrap_or_default();
    let found = known.iter().copied().find(|name| *name == wanted && made().any(|made| made == name));
    found.ok_or_else(|| OnnxFault::NoOutput {
        file: file.to_owned(),
        output: wanted.to_owned(),
        known: listed(&known),
    })
}

/// Returns the kind of numbers that an input takes, and how many, if the file says so.
fn shape(file: &str, graph: &pb::GraphProto, name: &str) -> Result<(DatumType, Option<i64>), OnnxFault> {
    use pb::tensor_shape_proto::dimension::Value::DimValue;
    let fault = || OnnxFault::Shape { file: file.to_owned(), input: name.to_owned() };
    let input = graph.input.iter().find(|input| input.name == name).and_then(|input| input.r#type.as_ref());
    let Some(pb::type_proto::Value::TensorType(tensor)) = input.and_then(|kind| kind.value.as_ref()) else {
        return Err(fault());
    };
    let kind = pb::tensor_proto::DataType::try_from(tensor.elem_type).ok();
    let kind = kind.and_then(|kind| DatumType::try_from(kind).ok()).ok_or_else(fault)?;
    if !matches!(kind, DatumType::I64 | DatumType::I32) {
        return Err(fault());
    }
    let Some(shape) = &tensor.shape else { return Ok((kind, None)) };
    let size = |dim: &pb::tensor_shape_proto::Dimension| match &dim.value {
        Some(DimValue(size)) if *size > 0 => Some(*size),
        _ => None,
    };
    match &*shape.dim {
        [batch, tokens] if size(batch).is_none_or(|size| size == 1) => Ok((kind, size(tokens))),
        _ => Err(fault()),
    }
}

fn listed(names: &[&str]) -> String {
    detail(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
}
