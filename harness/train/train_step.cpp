#include "harness/train/train_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "harness/base/error.h"
#include "harness/comm/mesh.h"
#include "harness/train/chunk_pass.h"
#include "harness/train/context_parallel.h"
#include "harness/train/gradient_reduction.h"
#include "harness/train/gradient_tree.h"
#include "harness/train/operands.h"
#include "harness/train/optimizer.h"
#include "harness/train/pipeline_exchange.h"
#include "harness/train/requirements.h"
#include "harness/train/stage_activations.h"
#include "harness/train/state_fingerprint.h"
#include "harness/train/token_source.h"

namespace dettax {

struct TrainStep::Impl {
  Impl(const Case& planned, const Mode& mode, Device& device, Communicator& communicator);

  void forward(const PipelineAction& action);
  void backward(const PipelineAction& action);
  void pass(size_t number);
  void load_tokens(const Chunk& chunk);
  float reduce_loss();
  StepResult step();

  const Case planned;
  const Knobs knobs;
  Device& device;
  const Mesh mesh;
  const ModelLayout layout;
  const std::vector<std::string> names;  // of the whole model's parameters
  const Stage stage;
  const GradientTree tree;
  ParameterStore parameters;
  GatheredWeights gathered;
  GradientReduction reduction;
  std::vector<std::vector<GradientRange>> chunk_gradients;
  const StageActivations activations;
  PipelineExchange exchange;
  const std::unique_ptr<TokenSource> data;
  std::vector<int32_t> sequence, host_tokens, host_targets;
  Operands operands;
  LossScale loss_scale;
  Probe probe;
  StepContext context;
  std::vector<Parameter> named;
  int64_t steps_done = 0;
  int64_t updates = 0;  // steps that changed weights
};

namespace {

StorageShape storage_shape(const Case& planned, const Knobs& knobs, const GradientTree& tree,
                           const Mesh& mesh) {
  StorageShape shape;
  shape.experts_apart = planned.layout.ep > 1;
  shape.copies = tree.copies();
  shape.apart = tied_uses_apart(planned, knobs);
  shape.table_alone = planned.model.tied_head && planned.layout.pp > 1;
  if (planned.layout.zero_stage == 0) return shape;
  const auto over = [](const Communicator& replicas) {
    return Shards{replicas.size(), replicas.rank()};
  };
  shape.shards = over(mesh.replicas());
  shape.expert_shards = over(mesh.expert_replicas());
  shape.shard_weights = planned.layout.zero_stage == 3;
  return shape;
}

// Each rank gets the sums of what it owns, unless every rank needs all: to add up squares in an order that does not depend on where
// shards end, or to add the uses of a tied table.
bool scatters(const Case& planned, const Knobs& knobs, const GradientTree& tree) {
  return planned.layout.zero_stage > 0 && knobs.grad_norm != Order::invariant && !tree.tree;
}

std::vector<std::string> parameter_names(const Model& model) {
  std::vector<std::string> names;
  for (ParameterSpec& spec : make_model_layout(model, whole_model(model)).parameters)
    names.push_back(std::move(spec.name));
  return names;
}

// Sums over samples must not depend on where micro-batches end: each sample is cut, not the rows of all of them.
int64_t row_segments(const Case& planned, const Knobs& knobs) {
  const bool cut = planned.layout.sequence_parallel && knobs.norm == Order::invariant;
  return cut ? planned.batch.micro : 1;
}

StateRange range_of(const ParameterSpec& spec, const Elements& elements) {
  return {spec.whole_rows, spec.whole_columns, spec.blocks,   spec.first_column,
          spec.columns,    elements.first,     elements.count};
}

Case checked(const Case& planned, const Communicator& communicator) {
  require_trainable(planned, communicator.size());
  return planned;
}

}  // namespace

TrainStep::Impl::Impl(const Case& planned_case, const Mode& mode, Device& on, Communicator& group)
    : planned(checked(planned_case, group)),
      knobs(mode.knobs),
      device(on),
      mesh(planned.layout, group, knobs.collectives == Order::invariant),
      layout(make_model_layout(planned.model,
                               part_of(planned.model, planned.layout, mesh.position()))),
      names(parameter_names(planned.model)),
      stage(make_stage(planned, mesh.position())),
      tree{gradients_as_tree(knobs), planned.micro_batches()},
      parameters(layout, storage_shape(planned, knobs, tree, mesh), device),
      gathered(parameters, layout, device),
      reduction(parameters.plan(), scatters(planned, knobs, tree),
                tree.tree && tree.micro_batches > 1),
      activations(planned, knobs, stage, device),
      exchange(mesh, stage, activations),
      data(make_token_source(planned)),
      sequence(static_cast<size_t>(planned.batch.sequence_length + 1)),
      host_tokens(static_cast<size_t>(planned.batch.micro * planned.local_sequence_length())),
      host_targets(host_tokens.size()),
      operands(recipe_of(planned.precision), planned.model.layers, operand_sizes(planned), on),
      loss_scale(recipe_of(planned.precision).loss_scaling),
      probe(planned.model.layers, planned.micro_batches()),
      context{planned.model,
              knobs,
              mesh,
              layout,
              local_sizes(planned.model, planned.layout.tp, mesh.position().tp),
              expert_sizes(planned),
              device,
              device.ops(),
              probe,
              parameters,
              gathered,
              reduction,
              activations.shared(),
              operands,
              planned.batch.micro,
              planned.batch.sequence_length,
              planned.local_sequence_length(),
              places_of(planned.layout, mesh.position(), planned.batch.sequence_length),
              row_segments(planned, knobs),
              1.0 / static_cast<double>(planned.tokens_per_step())} {
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const int index = static_cast<int>(p);
    const Tensor gradient = parameters.gradient(index);
    TrainStep::Parameter one{layout.parameters[p].name, {}, gradient, &layout.parameters[p], 0};
    if (parameters.sharded()) {
      one.value = parameters.owned_value(index);
      one.gradient = parameters.owned_gradient(index);
      one.first = parameters.owned(index).first;
    } else {
      one.value = parameters.value(index);
    }
    named.push_back(std::move(one));
  }
  for (const Chunk& chunk : stage.chunks)
    chunk_gradients.push_back(gradients_of(chunk, layout, parameters));
}

// The first stage needs the tokens, the last one the targets.
void TrainStep::Impl::load_tokens(const Chunk& chunk) {
  if (!chunk.embedding && !chunk.head) return;
  context.begin(Op::data);
  const int64_t tokens = context.tokens;
  for (int64_t s = 0; s < planned.batch.micro; ++s) {
    data->sample(context.seed, steps_done, context.first_sample + s, sequence);
    for (int64_t row = 0; row < tokens;) {
      const int64_t count = context.places.run(row, tokens);
      const auto from = sequence.begin() + context.places.position(row, tokens);
      std::copy_n(from, count, host_tokens.begin() + s * tokens + row);
      std::copy_n(from + 1, count, host_targets.begin() + s * tokens + row);
      row += count;
    }
  }
  const auto load = [&](const char* name, const Tensor& to, const std::vector<int32_t>& from) {
    device.copy_from_host(to.data, from.data(), from.size() * sizeof(int32_t));
    context.show(name, to);
  };
  if (chunk.embedding) load("tokens", context.buffers.tokens, host_tokens);
  if (chunk.head) load("targets", context.buffers.targets, host_targets);
}

void TrainStep::Impl::forward(const PipelineAction& action) {
  load_tokens(stage.chunk_of(action));
  chunk_forward(context, stage.chunk_of(action));
}

void TrainStep::Impl::backward(const PipelineAction& action) {
  context.gradient_copy = tree.copy_for(action.micro_batch);
  context.accumulate = tree.accumulates(action.micro_batch);
  chunk_backward(context, stage.chunk_of(action));
}

void TrainStep::Impl::pass(size_t number) {
  const PipelineAction& action = stage.actions[number];
  const int64_t per_rank = planned.batch.micro * planned.micro_batches();
  probe.enter_micro_batch(action.micro_batch);
  context.first_sample = mesh.position().dp * per_rank + action.micro_batch * planned.batch.micro;
  context.micro_batch = action.micro_batch;
  context.last_micro_batch = action.micro_batch + 1 == planned.micro_batches();
  context.phase = action.backward ? Phase::backward : Phase::forward;
  context.buffers =
      activations.pass(action.chunk, action.micro_batch, exchange.gradients_before(number));
  exchange.begin(context, number);
  action.backward ? backward(action) : forward(action);
  exchange.end(context, number);
  if (action.backward)
    tree.merge(context, action.micro_batch, chunk_gradients[static_cast<size_t>(action.chunk)]);
}

// Sum over micro-batches, then over replicas; divided once, at the end, so that the order of the sum alone decides its bits. Ranks
// that share a replica have summed the same losses, each in its own order where that is the order of arrival: one of the last stage
// counts.
float TrainStep::Impl::reduce_loss() {
  context.begin(Op::loss);
  const Tensor& loss = context.buffers.loss;
  if (stage.has_head()) {
    context.ops.sum_scalar(
        {loss, context.buffers.loss_sums, 1.0, planned.micro_batches(), context.sum(knobs.loss)});
    if (mesh.world().size() > 1) {
      probe.output("loss before", loss, 0);
      device.synchronize();
      mesh.replicas().all_reduce(loss.f32(), 1, knobs.collectives);
    }
  }
  if (mesh.model().size() > 1) {
    const int last_stage = (planned.layout.pp - 1) * planned.layout.tp * planned.layout.ep;
    device.synchronize();
    mesh.model().broadcast(loss.f32(), sizeof(float), last_stage);
  }
  context.ops.scale(loss, 1.0 / static_cast<double>(planned.tokens_per_step()));
  probe.output("loss", loss, 0);
  float value = 0;
  device.copy_to_host(&value, loss.data, sizeof value);
  return value;
}

StepResult TrainStep::Impl::step() {
  context.step = static_cast<uint64_t>(steps_done);
  context.gradient_scale = loss_scale.value() / static_cast<double>(planned.tokens_per_step());
  context.phase = Phase::forward;
  gathered.need_ends(context);
  for (size_t i = 0; i < stage.actions.size(); ++i) pass(i);
  exchange.finish();
  probe.leave_micro_batch();
  context.gradient_copy = 0;
  context.phase = Phase::reduce;
  reduction.finish(context);
  StepResult result;
  result.loss = reduce_loss();
  const Update update = update_weights(context, planned.optimizer, loss_scale, updates + 1);
  result.gradient_norm = update.gradient_norm;
  if (!update.skipped) ++updates;
  operands.end_step(mesh.world());
  device.synchronize();
  probe.idle();
  result.finite =
      std::isfinite(result.loss) && (update.skipped || std::isfinite(result.gradient_norm));
  ++steps_done;
  return result;
}

TrainStep::TrainStep(const Case& planned, const Mode& mode, Device& device,
                     Communicator& communicator)
    : impl_(std::make_unique<Impl>(planned, mode, device, communicator)) {}
TrainStep::~TrainStep() = default;

void TrainStep::reset(uint64_t seed) {
  impl_->context.seed = seed;
  impl_->steps_done = impl_->updates = 0;
  impl_->loss_scale.reset();
  impl_->operands.reset();
  impl_->parameters.reset(seed, impl_->planned.topology.threads_per_rank);
  impl_->gathered.forget();
}

StepResult TrainStep::step() { return impl_->step(); }
int64_t TrainStep::steps_done() const { return impl_->steps_done; }
void TrainStep::observe(StepObserver* observer) { impl_->probe.observe(observer); }
void TrainStep::listen(OpListener* listener) {
  impl_->probe.listen(listener);
  impl_->mesh.listen(listener);
}
void TrainStep::inject(StepObserver* injector) { impl_->probe.inject(injector); }
const char* TrainStep::current_op() const { return impl_->probe.current(); }
int64_t TrainStep::ops_issued() const { return impl_->probe.issued(); }

void TrainStep::fingerprint(const FingerprintSink& sink) const {
  const ParameterStore& store = impl_->parameters;
  const auto kind = [&](bool sharded, Tensor (ParameterStore::*tensor)(int) const) {
    return StateKind{{impl_->layout, impl_->names, impl_->mesh, sharded},
                     [&store, sharded, tensor](int p) {
                       return HeldPart{(store.*tensor)(p), sharded ? store.owned(p).first : 0};
                     }};
  };
  const bool sharded = store.weights_sharded();
  const std::array kinds{
      kind(sharded, sharded ? &ParameterStore::owned_value : &ParameterStore::value),
      kind(store.sharded(), &ParameterStore::first_moment),
      kind(store.sharded(), &ParameterStore::second_moment)};
  const auto values = fingerprint_state(kinds, impl_->device);
  for (size_t k = 0; k < kinds.size(); ++k) {
    const char* suffix = std::array{"", ".first_moment", ".second_moment"}.at(k);
    for (size_t p = 0; p < values[k].size(); ++p) sink(impl_->names[p] + suffix, values[k][p]);
  }
  // Dropout masks and samples follow from these two alone.
  sink("random.seed", dettax::fingerprint(&impl_->context.seed, 1, sizeof(uint64_t)));
  const PrecisionRecipe& recipe = impl_->operands.recipe();
  if (recipe.loss_scaling) {
    const double scale = impl_->loss_scale.value();
    const int64_t good_steps = impl_->loss_scale.good_steps();
    sink("loss_scale", dettax::fingerprint(&scale, 1, sizeof scale));
    sink("loss_scale.good_steps", dettax::fingerprint(&good_steps, 1, sizeof good_steps));
    sink("optimizer.updates", dettax::fingerprint(&impl_->updates, 1, sizeof(int64_t)));
  }
  if (recipe.delayed_scales)
    sink("operands.history", impl_->device.fingerprint(impl_->operands.history()));
  sink("data.step", dettax::fingerprint(&impl_->steps_done, 1, sizeof(int64_t)));
}

std::vector<StateTensor> TrainStep::state() {
  Impl& all = *impl_;
  std::vector<StateTensor> state;
  const auto add = [&](const char* item, const char* suffix, int p, bool sharded,
                       const Tensor& held) {
    const ParameterSpec& spec = all.layout.parameters[static_cast<size_t>(p)];
    const Elements elements = sharded ? all.parameters.owned(p) : Elements{0, spec.count()};
    state.push_back(
        {item, spec.name + suffix, StateType::f32, range_of(spec, elements), held.data, true});
  };
  const bool weights_sharded = all.parameters.weights_sharded();
  const bool sharded = all.parameters.sharded();
  for (int p = 0; p < static_cast<int>(all.parameters.size()); ++p) {
    add(state_item::kWeights, "", p, weights_sharded,
        weights_sharded ? all.parameters.owned_value(p) : all.parameters.value(p));
    add(state_item::kFirstMoment, ".first_moment", p, sharded, all.parameters.first_moment(p));
    add(state_item::kSecondMoment, ".second_moment", p, sharded, all.parameters.second_moment(p));
  }
  const auto number = [&](const char* item, StateType type, void* value) {
    state.push_back({item, item, type, {}, value, false});
  };
  number(state_item::kUpdates, StateType::i64, &all.updates);
  number(state_item::kSeed, StateType::u64, &all.context.seed);
  number(state_item::kStep, StateType::i64, &all.steps_done);
  if (all.loss_scale.active()) {
    number(state_item::kLossScale, StateType::f64, &all.loss_scale.saved_scale());
    number(state_item::kGoodSteps, StateType::i64, &all.loss_scale.saved_good_steps());
  }
  if (const Tensor history = all.operands.history()) {
    const StateRange whole{
        history.rows(), history.columns(), {{0, history.rows()}}, 0, history.columns(), 0,
        history.count()};
    state.push_back({state_item::kOperandHistory, state_item::kOperandHistory, StateType::f32,
                     whole, history.data, true});
    number(state_item::kOperandSteps, StateType::i64, &all.operands.saved_steps());
  }
  return state;
}
const Case& TrainStep::planned() const { return impl_->planned; }
Device& TrainStep::device() const { return impl_->device; }

const std::vector<TrainStep::Parameter>& TrainStep::parameters() const { return impl_->named; }
const Mesh& TrainStep::mesh() const { return impl_->mesh; }

FillTotals TrainStep::fills() const { return impl_->context.fills; }

double TrainStep::flops_per_step() const {
  return dettax::flops_per_step(impl_->planned.model, tokens_per_step(),
                                impl_->planned.batch.sequence_length);
}
int64_t TrainStep::tokens_per_step() const { return impl_->planned.tokens_per_step(); }
int64_t TrainStep::allocated_bytes() const {
  return impl_->parameters.bytes() + impl_->gathered.bytes() + impl_->activations.bytes() +
         impl_->operands.bytes();
}

}  // namespace dettax
