#include "harness/launch/job.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/machine.h"
#include "harness/launch/node_list.h"

namespace dettax {
namespace {

constexpr size_t kNamedHosts = 8;  // in a message

std::string named(const std::vector<std::string>& names) {
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamedHosts)));
  if (names.size() > kNamedHosts) shown.push_back(fmt::format("... {} in all", names.size()));
  return join(shown, ", ");
}

std::string named(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const HostSlots& host : hosts) {
    names.push_back(host.ranks > 0 ? fmt::format("{} x {}", host.host, host.ranks) : host.host);
  }
  return named(names);
}

int positive(const std::string& text, int fallback) {
  int value = 0;
  const auto [rest, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && value > 0 ? value : fallback;
}

// Counts that Slurm gives as a node list's shadow: "4(x2)". None if it gives none.
std::vector<int> counts_of(const VariableLookup& variable, const char* name) {
  const auto text = variable(name);
  return text ? expand_task_counts(*text) : std::vector<int>{};
}

// Task counts belong to the steps of a job only where they were asked for: sbatch sets the variable
// in any case, from the number of CPUs.
Job slurm_job(const std::string& id, const VariableLookup& variable) {
  Job job;
  job.name = "Slurm job " + id;
  const auto nodes = variable("SLURM_JOB_NODELIST");
  if (!nodes) {
    throw Error(ErrorKind::config,
                fmt::format("SLURM_JOB_ID is {} and SLURM_JOB_NODELIST is not set", id));
  }
  const std::vector<std::string> names = expand_node_list(*nodes);
  const bool asked = variable("SLURM_NTASKS_PER_NODE") || variable("SLURM_NTASKS");
  const std::vector<int> tasks =
      asked ? counts_of(variable, "SLURM_TASKS_PER_NODE") : std::vector<int>{};
  if (!tasks.empty() && tasks.size() != names.size()) {
    throw Error(ErrorKind::config,
                fmt::format("SLURM_TASKS_PER_NODE has {} nodes and SLURM_JOB_NODELIST {}",
                            tasks.size(), names.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    job.hosts.push_back({names[i], tasks.empty() ? 0 : tasks[i]});
  }
  const std::vector<int> cores = counts_of(variable, "SLURM_JOB_CPUS_PER_NODE");
  if (!cores.empty()) job.cores_per_host = *std::min_element(cores.begin(), cores.end());
  if (const auto devices = variable("SLURM_GPUS_ON_NODE")) {
    job.devices_per_host = positive(*devices, 0);
  }
  return job;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(ErrorKind::config, fmt::format("host file {}: cannot be read", path));
  return text.str();
}

// Without `kept` all hosts are; a name that the job does not have is a slip of the pen.
void narrow(Job& job, const std::string& list, const char* flag, bool keep) {
  if (list.empty()) return;
  const std::vector<std::string> names = expand_node_list(list);
  const std::set<std::string> wanted(names.begin(), names.end());
  for (const std::string& name : names) {
    const bool known = std::any_of(job.hosts.begin(), job.hosts.end(),
                                   [&](const HostSlots& host) { return host.host == name; });
    if (known) continue;
    throw Error(ErrorKind::config, fmt::format("{} {}: {} is not in {} ({})", flag, list, name,
                                               job.name, named(job.hosts)));
  }
  std::erase_if(job.hosts,
                [&](const HostSlots& host) { return wanted.contains(host.host) != keep; });
  if (job.hosts.empty()) {
    throw Error(ErrorKind::config, fmt::format("{} {} leaves no host of {}", flag, list, job.name));
  }
}

std::vector<HostSlots> listed_hosts(const std::string& nodelist) {
  std::vector<HostSlots> hosts;
  for (std::string& name : expand_node_list(nodelist)) hosts.push_back({std::move(name), 0});
  return hosts;
}

std::string expected(const Topology& topology) {
  return fmt::format("expected {} node{} x {} rank{}", topology.nodes,
                     topology.nodes == 1 ? "" : "s", topology.ranks_per_node,
                     topology.ranks_per_node == 1 ? "" : "s");
}

// Ranks by host, in the order of their first rank.
std::vector<std::pair<std::string, int>> ranks_by_host(const std::vector<Hello>& ranks) {
  std::vector<std::pair<std::string, int>> hosts;
  for (const Hello& rank : ranks) {
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const auto& host) { return host.first == rank.host; });
    if (known == hosts.end()) {
      hosts.emplace_back(rank.host, 1);
    } else {
      ++known->second;
    }
  }
  return hosts;
}

// Value -> hosts that have it, for one variable; "" stands for not set.
std::map<std::string, std::set<std::string>> values_of(const std::string& variable,
                                                       const std::vector<Hello>& ranks) {
  std::map<std::string, std::set<std::string>> values;
  for (const Hello& rank : ranks) {
    const auto found = rank.variables.find(variable);
    values[found == rank.variables.end() ? "" : found->second].insert(rank.host);
  }
  return values;
}

std::string in_words(const std::string& value) {
  return value.empty() ? "not set" : "\"" + value + "\"";
}

}  // namespace

std::vector<HostSlots> parse_hostfile(const std::string& text, const std::string& name) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    HostSlots entry;
    if (!(words >> entry.host)) continue;
    for (std::string word; words >> word;) {
      const std::string key = word.substr(0, word.find('='));
      if (key == "max_slots" || key == "max-slots") continue;
      entry.ranks = key == "slots" && word.size() > 6 ? positive(word.substr(6), 0) : 0;
      if (entry.ranks > 0) continue;
      throw Error(ErrorKind::config,
                  fmt::format("{}:{}: \"{}\" is not understood; a line is: host slots=N", name,
                              number, word));
    }
    hosts.push_back(std::move(entry));
  }
  if (hosts.empty()) throw Error(ErrorKind::config, name + ": names no host");
  return hosts;
}

Job find_job(const HostChoice& choice, const VariableLookup& variable) {
  Job job;
  bool listed = false;
  if (!choice.hostfile.empty()) {
    job.name = "host file " + choice.hostfile;
    job.hosts = parse_hostfile(read_file(choice.hostfile), choice.hostfile);
  } else if (const auto id = variable("SLURM_JOB_ID")) {
    job = slurm_job(*id, variable);
  } else if (!choice.nodelist.empty()) {
    job.name = "--nodelist " + choice.nodelist;
    job.hosts = listed_hosts(choice.nodelist);
    listed = true;
  } else {
    job.name = "this host";
    job.hosts = {{node_name(), 0}};
  }
  if (!listed) narrow(job, choice.nodelist, "--nodelist", true);
  narrow(job, choice.exclude, "--exclude", false);
  return job;
}

std::optional<std::string> job_fault(const Case& planned, const Job& job) {
  const Topology& topology = planned.topology;
  if (hosts_for(planned, job).size() < static_cast<size_t>(topology.nodes)) {
    return fmt::format("{}, found {} node{} in {} ({})", expected(topology), job.hosts.size(),
                       job.hosts.size() == 1 ? "" : "s", job.name, named(job.hosts));
  }
  if (planned.backend == Backend::cuda && job.devices_per_host >= 0 &&
      job.devices_per_host < topology.ranks_per_node) {
    return fmt::format("expected {} devices a node, found {} in {}", topology.ranks_per_node,
                       job.devices_per_host, job.name);
  }
  return std::nullopt;
}

std::vector<std::string> hosts_for(const Case& planned, const Job& job) {
  const Topology& topology = planned.topology;
  std::vector<std::string> hosts;
  for (const HostSlots& host : job.hosts) {
    const bool room = host.ranks == 0 || host.ranks >= topology.ranks_per_node;
    if (room && hosts.size() < static_cast<size_t>(topology.nodes)) hosts.push_back(host.host);
  }
  return hosts;
}

std::optional<std::string> placement_fault(const Case& planned, const std::vector<Hello>& ranks) {
  const Topology& topology = planned.topology;
  const auto hosts = ranks_by_host(ranks);
  const bool fits = hosts.size() == static_cast<size_t>(topology.nodes) &&
                    std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) {
                      return host.second == topology.ranks_per_node;
                    });
  if (!fits) {
    std::vector<std::string> found;
    found.reserve(hosts.size());
    for (const auto& [host, count] : hosts) found.push_back(fmt::format("{} x {}", host, count));
    return fmt::format("{}, found {} node{} ({})", expected(topology), hosts.size(),
                       hosts.size() == 1 ? "" : "s", named(found));
  }
  if (planned.backend != Backend::cuda) return std::nullopt;
  for (const Hello& rank : ranks) {
    if (rank.devices >= topology.ranks_per_node) continue;
    return fmt::format("expected {} devices on host {}, found {}", topology.ranks_per_node,
                       rank.host, rank.devices);
  }
  return std::nullopt;
}

std::optional<std::string> fleet_fault(const std::vector<Hello>& ranks) {
  std::set<std::string> names;
  for (const Hello& rank : ranks) {
    for (const auto& [name, value] : rank.variables) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto values = values_of(name, ranks);
    if (values.size() < 2) continue;
    const auto usual = std::max_element(
        values.begin(), values.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [value, hosts] : values) {
      if (value == usual->first) continue;
      return fmt::format(
          "the configuration of host {} differs from the fleet: {} is {} there and "
          "{} on {} others",
          named(std::vector<std::string>(hosts.begin(), hosts.end())), name, in_words(value),
          in_words(usual->first), usual->second.size());
    }
  }
  return std::nullopt;
}

}  // namespace dettax
