#include <memory>
#include <ostream>
#include <string>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

void list_model_rows(std::ostream& out) {
  for (const std::string& name : list_models()) {
    const Model model = load_model(name);
    out << fmt::format("  {:<18} {:>8} parameters, {} layers of width {}\n", name,
                       format_count(static_cast<double>(parameter_count(model))), model.layers,
                       model.width);
  }
}

void list_mode_rows(std::ostream& out) {
  for (const std::string& name : list_modes()) {
    const Mode mode = load_mode(name);
    out << fmt::format("  {:<28} {} {}\n", name, mode.hash, trim(mode.note));
  }
}

void list_cluster_rows(std::ostream& out) {
  for (const std::string& name : list_clusters()) {
    const Cluster cluster = load_cluster(name);
    const int ranks = cluster.topology.ranks_per_node;
    out << fmt::format(
        "  {:<12} {} of {}: {}\n", name, format_things(cluster.topology.nodes, "node"),
        ranks == 0 ? "any number of ranks" : format_things(ranks, "rank"), cluster.description);
  }
}

std::string things(size_t count, const char* thing) {
  return format_things(static_cast<int64_t>(count), thing);
}

void list_suite_rows(std::ostream& out) {
  for (const std::string& name : list_suites()) {
    const Suite suite = load_suite(name);
    out << fmt::format("  {:<12} {:<8} {:<8} {}\n", name, things(suite.cases.size(), "case"),
                       things(suite.modes.size(), "mode"), suite.description);
  }
}

void list_knob_rows(std::ostream& out) {
  for (const KnobInfo& info : knob_table()) {
    std::vector<std::string> values(info.values.begin(), info.values.end());
    out << fmt::format("  {:<12} {:<12} {:<32} {}\n", info.name, part_word(info.part),
                       join(values, ", "), info.what);
  }
}

struct Section {
  const char* name;
  void (*write)(std::ostream& out);
};
constexpr Section kSections[] = {{"models", list_model_rows},
                                 {"modes", list_mode_rows},
                                 {"clusters", list_cluster_rows},
                                 {"suites", list_suite_rows},
                                 {"knobs", list_knob_rows}};

class ListCommand : public Command {
 public:
  const char* name() const override { return "list"; }
  const char* what() const override { return "names of models, modes, clusters, suites and knobs"; }
  void declare(Options& options) override {
    options.positional("KIND", kind_, "models, modes, clusters, suites or knobs; all if left out",
                       false);
  }
  ExitCode run(const Streams& streams) override {
    std::vector<std::string> names;
    bool found = false;
    for (const Section& section : kSections) {
      names.emplace_back(section.name);
      if (!kind_.empty() && kind_ != section.name) continue;
      found = true;
      streams.out << section.name << '\n';
      section.write(streams.out);
    }
    if (!found) {
      throw Error(ErrorKind::usage,
                  fmt::format("list: there is no \"{}\"{}", kind_, did_you_mean(kind_, names)));
    }
    return ExitCode::pass;
  }

 private:
  std::string kind_;
};

}  // namespace

std::unique_ptr<Command> make_list_command() { return std::make_unique<ListCommand>(); }

}  // namespace dettax
