#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {

// References inside a suite: a name or path, or a mapping whose keys lie over those of its `base`.
Model read_model(const Yaml& node, const std::string& key);
Mode read_mode(const Yaml& node, const std::string& key);
// A mapping, or text such as dp2.tp4.pp2.sp.zero1.
Layout read_layout(const Yaml& node, const std::string& key);

// Texts that were read already, by their path: the cases of a suite share them.
using KnownTexts = std::map<std::string, Data>;
// The key `data` of a case whose model and batch are read; the file of a text is looked at here.
void read_data(MapReader& reader, Case& planned, KnownTexts& texts);

// Nodes and ranks per node, as a case's topology and a cluster's file say them; 0 ranks per node are as
// many as the layout needs.
void read_nodes(MapReader& keys, Topology& topology);

// A suite that stands inside of another file, which messages name and relative paths start beside.
Suite parse_suite(const std::string& yaml, const std::string& file);

// All cases of one entry of `cases`: the cross product of its lists.
std::vector<Case> read_cases(const Yaml& entry, const std::string& key, KnownTexts& texts);

// Everything written out, in the form the readers take.
Yaml model_yaml(const Model& model);
Yaml mode_yaml(const Mode& mode);
Yaml case_yaml(const Case& planned);
Yaml suite_yaml(const Suite& suite);

// Name tables of the enumerations, in the order of their values.
const std::vector<std::string>& precision_words();
const std::vector<std::string>& backend_words();
const std::vector<std::string>& schedule_words();
const std::vector<std::string>& recompute_words();
const std::vector<std::string>& norm_words();
const std::vector<std::string>& activation_words();
const std::vector<std::string>& position_words();
const std::vector<std::string>& routing_words();

}  // namespace dettax
