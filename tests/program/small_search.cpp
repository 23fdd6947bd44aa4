#include "small_search.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace fusetune::cli_test {
namespace {

constexpr int kBusyMilliseconds = 5000;
constexpr auto kLongestWait = std::chrono::seconds(120);

}  // namespace

const std::string kSmallSearch =
    "export FUSETUNE_CACHE_DIR='" SEARCH_TEST_CACHE
    "' && exec \"$FUSETUNE\" search --batch 1 --seq 16 --heads 2 --head-size 8 --ffn 32 --layers 2 --isa "
    "generic --threads 1 --samples 5 --min-time 0.02 --finalists 2 --db small.db";

SmallSearch::~SmallSearch() {
  if (send(SIGKILL)) end();
}

void SmallSearch::start(const std::string& options) {
  for (const char* file : {"out", "err"}) std::filesystem::remove(at(file));  // of the one before
  const std::string script = fmt::format("cd '{}' && FUSETUNE='{}' && {} {} >out 2>err </dev/null",
                                         directory_.path().string(), FUSETUNE_PROGRAM, kSmallSearch, options);
  search_ = ::fork();
  if (search_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // with the test that is ended from outside
  ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
  ::_exit(127);
}

bool SmallSearch::ended() {
  if (search_ > 0 && ::waitpid(search_, &status_, WNOHANG) == search_) search_ = -1;
  return search_ < 0;
}

void SmallSearch::wait_until(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + kLongestWait;
  while (!condition()) {
    ASSERT_FALSE(ended()) << "it ended by itself:\n" << base::read_file(at("err"));
    ASSERT_LT(std::chrono::steady_clock::now(), limit) << "it does not get there";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

bool SmallSearch::in_the_finals() const {
  return std::filesystem::exists(at("err")) &&
         base::read_file(at("err")).find(" whole\n") != std::string::npos;
}

bool SmallSearch::send(int signal) { return !ended() && ::kill(search_, signal) == 0; }

int SmallSearch::end() {
  if (search_ > 0) ::waitpid(search_, &status_, 0);
  search_ = -1;
  return WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_);
}

int SmallSearch::ask(const std::string& sql) const {
  if (!std::filesystem::exists(database())) return 0;
  SQLite::Database open(database().string(), SQLite::OPEN_READONLY, kBusyMilliseconds);
  try {
    if (!open.tableExists("reference_time")) return 0;  // the last that is made
  } catch (const SQLite::Exception&) {
    return 0;
  }
  return open.execAndGet(sql).getInt();
}

int SmallSearch::count(const std::string& what) const {
  return ask(
      fmt::format("SELECT (SELECT ifnull(sum({0}), 0) FROM segment_measurement)"
                  " + (SELECT ifnull(sum({0}), 0) FROM plan_measurement)",
                  what));
}

void SmallSearch::execute(const std::string& sql) const {
  SQLite::Database(database().string(), SQLite::OPEN_READWRITE, kBusyMilliseconds).exec(sql);
}

void SmallSearch::expect_sound() const {
  if (!std::filesystem::exists(database())) return;
  const Outcome check = run("\"$FUSETUNE\" db check --db small.db");
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
}

}  // namespace fusetune::cli_test
