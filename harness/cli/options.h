#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dettax {

// Declares the options of one subcommand. What is bound must outlive the parsing.
class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  void positional(const std::string& name, std::string& value, const std::string& what,
                  bool required);
  void flag(const std::string& names, bool& value, const std::string& what);
  void text(const std::string& names, const std::string& placeholder, std::string& value,
            const std::string& what);
  void texts(const std::string& names, const std::string& placeholder,
             std::vector<std::string>& values, const std::string& what);  // may be repeated
  void integer(const std::string& names, std::optional<int64_t>& value, const std::string& what);
  void number(const std::string& names, std::optional<double>& value, const std::string& what);
  void choice(const std::string& names, const std::vector<std::string>& words, std::string& value,
              const std::string& what);

 private:
  CLI::App& app_;
};

}  // namespace dettax
