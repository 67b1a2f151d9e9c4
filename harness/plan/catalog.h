#pragma once

#include <string>
#include <vector>

#include "harness/plan/yaml.h"

namespace dettax {

// The kinds of data files that have names; each has a folder under the home.
enum class FileKind { model, mode, cluster, suite, rules };

std::vector<std::string> list_names(FileKind kind);

// Whether this is a path (has a slash or ends in .yaml or .yml) rather than a name of the catalog.
bool is_path(const std::string& name_or_path);

// The file of a name or path. Throws Error{config} `model "x" does not exist; did you mean "y"?`.
std::string resolve(FileKind kind, const std::string& name_or_path);

// The same for a reference inside another file, which the message then names. A relative path starts at that file's folder; where the
// value was laid over the file by a flag, at the current folder.
std::string resolve(FileKind kind, const Yaml& reference, const std::string& key);

// The path as seen from here of one that a value names: a relative one starts at the folder of the file that the value stands in, or,
// where it was laid over a file, at the current folder.
std::string from_where_it_stands(const Yaml& value, const std::string& path);

// The same for a file's `base`; `above` are the files that are being read, each the base of the one before it. Error{config} if it is one
// of them.
std::string resolve_base(FileKind kind, const Yaml& reference, const std::string& key,
                         const std::vector<std::string>& above);

// Name of a file without folder and ending.
std::string stem(const std::string& path);

// Throws unless the name is safe as a part of a file name and of a label.
void check_name(const Yaml& node, const std::string& key, const std::string& name);

}  // namespace dettax
