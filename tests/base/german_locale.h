// A locale that writes 1.234,5: files and numbers must not follow it.
#pragma once

#include <clocale>
#include <cstdlib>
#include <locale>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace fusetune::base {

struct CommaPunctuation : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

// Makes a German locale current; where the system has none it is compiled, if its source is there. The C++
// locale gets the same punctuation in any case. All restored on destruction.
class GermanLocale {
 public:
  GermanLocale() : before_(std::setlocale(LC_ALL, nullptr)) {
    if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) compile();
    cpp_before_ = std::locale::global(std::locale(std::locale(), new CommaPunctuation));
  }
  ~GermanLocale() {
    std::locale::global(cpp_before_);
    std::setlocale(LC_ALL, before_.c_str());
    ::unsetenv("LOCPATH");
  }
  GermanLocale(const GermanLocale&) = delete;
  GermanLocale& operator=(const GermanLocale&) = delete;

 private:
  void compile() {
    const auto target = directory_.path() / "de_DE.UTF-8";
    try {
      run_process({"localedef", "-i", "de_DE", "-f", "UTF-8", target.string()});
    } catch (const EnvironmentError&) {
      return;
    }
    ::setenv("LOCPATH", directory_.path().c_str(), 1);
    std::setlocale(LC_ALL, "de_DE.UTF-8");
  }

  const TemporaryDirectory directory_;
  std::string before_;
  std::locale cpp_before_;
};

}  // namespace fusetune::base
