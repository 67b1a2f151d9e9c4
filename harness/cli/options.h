#pragma once

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
  // One or more.
  void positionals(const std::string& name, std::vector<std::string>& values,
                   const std::string& what);
  void flag(const std::string& names, bool& value, const std::string& what);
  void text(const std::string& names, const std::string& placeholder, std::string& value,
            const std::string& what);
  // May begin with a dash: arguments of another program.
  void arguments(const std::string& names, const std::string& placeholder, std::string& value,
                 const std::string& what);
  void texts(const std::string& names, const std::string& placeholder,
             std::vector<std::string>& values, const std::string& what);  // may be repeated
  // Takes every value up to the next flag.
  void lists(const std::string& names, const std::string& placeholder,
             std::vector<std::string>& values, const std::string& what);
  // `example` tells who gave no number what one looks like.
  void number(const std::string& names, std::optional<double>& value, const std::string& what,
              const std::string& example);
  void choice(const std::string& names, const std::vector<std::string>& words, std::string& value,
              const std::string& what);

 private:
  CLI::App& app_;
};

}  // namespace dettax
