#include "harness/plan/catalog.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

struct KindInfo {
  const char* word;
  const char* folder;
};

KindInfo info_of(FileKind kind) {
  switch (kind) {
    case FileKind::model:
      return {"model", "configs/models"};
    case FileKind::mode:
      return {"mode", "configs/modes"};
    case FileKind::cluster:
      return {"cluster", "configs/clusters"};
    case FileKind::suite:
      return {"suite", "suites"};
    case FileKind::rules:
      return {"rules", "configs/acceptance"};
  }
  return {"?", ""};
}

bool is_home(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "configs" / "models", ignored);
}

// What is wrong with the name, or the empty text and the path.
std::pair<std::string, std::string> look_up(FileKind kind, const std::string& name_or_path) {
  if (is_path(name_or_path)) return {"", name_or_path};
  const KindInfo info = info_of(kind);
  const std::vector<std::string> names = list_names(kind);
  if (std::find(names.begin(), names.end(), name_or_path) != names.end()) {
    return {"", (fs::path(find_home()) / info.folder / (name_or_path + ".yaml")).string()};
  }
  return {fmt::format("{} \"{}\" does not exist{}", info.word, name_or_path,
                      did_you_mean(name_or_path, names)),
          ""};
}

}  // namespace

std::string from_where_it_stands(const Yaml& value, const std::string& path) {
  const size_t colon = value.origin.rfind(':');
  if (fs::path(path).is_absolute() || colon == std::string::npos) return path;
  const std::string line = value.origin.substr(colon + 1);
  const bool in_file =
      !line.empty() && std::ranges::all_of(line, [](char c) { return c >= '0' && c <= '9'; });
  if (!in_file) return path;
  return (fs::path(value.origin.substr(0, colon)).parent_path() / path).string();
}

std::string find_home() {
  // Read before any thread starts. NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (const char* set = std::getenv("DETTAX_HOME"); set != nullptr && *set != '\0') {
    if (is_home(set)) return set;
    throw Error(
        ErrorKind::config,
        fmt::format("DETTAX_HOME is {}, which holds no configs/models; it must be the folder "
                    "that holds configs and suites",
                    set));
  }
  std::error_code ignored;
  const fs::path installed =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path() / "share" / "dettax";
  for (const fs::path& folder : {fs::path(DETTAX_SOURCE_HOME), installed}) {
    if (is_home(folder)) return folder.string();
  }
  throw Error(ErrorKind::config,
              fmt::format("no configs/models in {} or {}; set DETTAX_HOME to the folder that holds "
                          "configs and suites",
                          DETTAX_SOURCE_HOME, installed.string()));
}

std::vector<std::string> list_names(FileKind kind) {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = fs::path(find_home()) / info_of(kind).folder;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  }
  if (error) {
    throw Error(ErrorKind::config, fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_models() { return list_names(FileKind::model); }
std::vector<std::string> list_modes() { return list_names(FileKind::mode); }
std::vector<std::string> list_clusters() { return list_names(FileKind::cluster); }
std::vector<std::string> list_suites() { return list_names(FileKind::suite); }

bool is_path(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".yaml") ||
         name_or_path.ends_with(".yml");
}

std::string resolve(FileKind kind, const std::string& name_or_path) {
  const auto [fault, path] = look_up(kind, name_or_path);
  if (!fault.empty()) throw Error(ErrorKind::config, fault);
  return path;
}

std::string resolve(FileKind kind, const Yaml& reference, const std::string& key) {
  const auto [fault, path] = look_up(kind, read_text(reference, key));
  if (!fault.empty()) throw config_error(reference, key, fault);
  return is_path(path) ? from_where_it_stands(reference, path) : path;
}

std::string resolve_base(FileKind kind, const Yaml& reference, const std::string& key,
                         const std::vector<std::string>& above) {
  const std::string path = resolve(kind, reference, key);
  std::error_code ignored;
  const auto same = [&](const std::string& other) {
    return path == other || fs::equivalent(path, other, ignored);
  };
  if (std::any_of(above.begin(), above.end(), same)) {
    throw config_error(reference, key,
                       fmt::format("{} is made from itself: {} -> {}; a base must be another {}",
                                   path, join(above, " -> "), path, info_of(kind).word));
  }
  return path;
}

std::string stem(const std::string& path) { return fs::path(path).stem().string(); }

void check_name(const Yaml& node, const std::string& key, const std::string& name) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
  constexpr size_t kLongest = 80;
  const bool safe = !name.empty() && name.size() <= kLongest && name[0] != '.' &&
                    name.find_first_not_of(kSafe) == std::string::npos;
  if (safe) return;
  throw config_error(node, key,
                     fmt::format("\"{}\" is no name; it must be up to {} letters, digits, dots, "
                                 "underscores, plus and minus signs, and not begin with a dot",
                                 name.substr(0, kLongest), kLongest));
}

}  // namespace dettax
