#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/knobs.h"
#include "harness/plan/layout.h"
#include "harness/plan/link.h"

namespace dettax {

enum class NormKind { layer_norm, rms_norm };
enum class Activation { gelu, swiglu };
enum class Position { learned, rope };

// Which experts a token goes to: those its router finds most probable, or each in turn, so that speed does not depend on the data.
enum class Routing { natural, balanced };

// Mixture-of-experts part of a model; layers below `first_layer` stay dense.
struct Moe {
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t expert_width = 0;
  int64_t shared_experts = 0;
  int64_t first_layer = 0;
  bool normalised = true;        // the weights of a token's experts add up to 1
  double balance_weight = 0.01;  // of the load-balance loss, which each sequence has for itself
  double capacity_factor =
      0;  // tokens of a sequence that an expert takes, over those of an even load; 0: all (dropless)
  Routing routing = Routing::natural;
};

// Multi-head latent attention (DeepSeek); all in elements.
struct LatentAttention {
  int64_t query_rank = 0;
  int64_t key_value_rank = 0;
  int64_t rope_head_width = 0;
  int64_t nope_head_width = 0;
  int64_t value_head_width = 0;
};

// A decoder-only transformer. Widths in elements.
struct Model {
  std::string name;
  int64_t vocabulary = 0;
  int64_t vocabulary_multiple = 64;  // token tables and logits are padded to a multiple of it
  int64_t context = 0;               // longest sequence the model was made for
  int64_t layers =
      0;  // as run; fewer than published_layers makes it a proxy, and the record says so
  int64_t published_layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_width = 0;  // width / heads unless the model says otherwise
  int64_t ffn_width = 0;
  NormKind norm = NormKind::layer_norm;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::gelu;
  Position position = Position::learned;
  double rope_theta = 10000.0;
  bool tied_head = false;
  bool bias = false;  // biases in linear layers and layer norms
  double dropout = 0.0;
  std::optional<Moe> moe;
  std::optional<LatentAttention> latent_attention;
  std::string source;  // where the shape was published

  int64_t padded_vocabulary() const {
    return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
  }
};

// Whether this layer has a mixture of experts in place of its MLP.
bool has_experts(const Model& model, int64_t layer);
int64_t expert_layers(const Model& model);

// Trainable parameters of the model as run, by the published definition of each part, with the
// unpadded vocabulary.
int64_t parameter_count(const Model& model);
// FLOPs of one training step (forward and backward) over `tokens` tokens in sequences of
// `sequence_length`: 6 per parameter of a matrix multiplication and token, plus 12 * layers * heads
// * head_width * sequence_length / 2 (causal) a token.
double flops_per_step(const Model& model, int64_t tokens, int64_t sequence_length);

struct Topology {
  int nodes = 1;
  int ranks_per_node = 1;
  int threads_per_rank = 1;
  // Links that are emulated on one machine. What one rank sends inside its node, and what one node
  // sends to others, shares one each.
  Link intra_node, inter_node;
  bool emulates_links() const { return intra_node.limited() || inter_node.limited(); }
};
// "between nodes 125 MB/s and 50 us"; empty where none is emulated.
std::string link_words(const Topology& topology);

enum class Precision { fp32, tf32, bf16, fp16, fp8_cs, fp8_ds, fp8_mx, nvfp4 };
enum class Backend { cpu, cuda };

// Samples are sequences. global = micro * dp * (number of micro-batches a rank accumulates).
struct Batch {
  int64_t micro = 1;
  int64_t global = 1;
  int64_t sequence_length = 1;
};

struct Data {
  std::string kind = "zipf";  // zipf: token ids with probability ~ 1 / (rank + 2.7)^exponent; text:
                              // bytes of a file
  double zipf_exponent = 1.1;
  std::string path;  // of the text file
  // Of the text's content: to know it again. A suite that gives a hash takes no other text.
  int64_t bytes = 0;
  std::string hash;  // 32 hexadecimal digits
};

struct Optimizer {
  double learning_rate = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices only
  double clip_norm = 1.0;     // 0: no clipping
};

// A fault put in on purpose, to test the harness and to calibrate it. A record of a case with
// injections says so.
struct Injection {
  std::string
      kind;  // slow | delay (each op of its name takes longer) | crash | hang | nan | nan_once (strikes once, not in replays)
             // | reorder (an op's sums end as in another order, another one in every run)
             // | reorder_collectives (so do the reductions over ranks, on all ranks alike)
             // | reorder_elsewhere (the same, only where ranks lie elsewhere than planned)
             // | no_deterministic_version (the op refuses, as a framework's would)
  std::string arm;  // the arm it applies to; empty: every arm
  int rank = 0;
  int64_t step = 0;    // counted from the start of the process' measuring or of a ledger; for nan,
                       // crash and hang; for slow and reorder the first of many
  std::string op;      // path prefix of the op it strikes, e.g. "forward/layer1/attention"; empty:
                       // start of the step
  std::string tensor;  // of that op, e.g. "dq", for nan and reorder; empty: the first it shows
  double ratio = 0;    // slow: 0.03 makes each step 3 % longer
  double seconds = 0;  // delay: that each such op takes longer
};

// Everything that must be equal for arms to be comparable.
struct Case {
  Model model;
  Layout layout;
  Precision precision = Precision::fp32;
  Topology topology;
  Backend backend = Backend::cpu;
  Batch batch;
  Data data;
  Optimizer optimizer;
  uint64_t seed = 1;
  std::vector<Injection> injections;
  std::string label;  // tells apart cases that differ in nothing the id shows otherwise

  // Stable name within a suite, safe as a file name:
  // <model>.<precision>.<layout>.t<threads>.b<global>x<sequence_length>, then .m<micro> if a rank
  // accumulates several micro-batches, and .<label>. A truncated model is named <model>-l<layers>.
  std::string id() const;
  int64_t micro_batches() const { return batch.global / (batch.micro * layout.dp); }
  int64_t tokens_per_step() const { return batch.global * batch.sequence_length; }
  // Tokens of a sequence on one rank.
  int64_t local_sequence_length() const { return batch.sequence_length / layout.cp; }
};

// A named, hashed set of knob values and library settings: a file in configs/modes/.
struct Mode {
  std::string name;
  Knobs knobs;
  std::map<std::string, std::string> environment;  // set before the arm's processes start
  bool claims_reproducible = false;                // evidence is demanded of it
  bool claims_invariant = false;                   // and of threads, micro-batches and ranks too
  bool allow_unproven_environment =
      false;  // library settings not known to be reproducible are not refused
  bool allow_unproven_knobs = false;  // values that do not hold what is claimed are not refused
  std::string note;
  std::string hash;  // 16 hex digits over knobs and environment, not the name
};

const char* to_string(Precision precision);
const char* to_string(Backend backend);
const char* to_string(NormKind norm);
const char* to_string(Activation activation);
const char* to_string(Position position);
const char* to_string(Routing routing);

// Whether a case has anything for this knob to act on.
bool knob_acts(Knob knob, const Case& planned);

}  // namespace dettax
