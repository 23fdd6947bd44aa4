// Messages whose parts are broken. In a file of its own: GCC 12 warns of the map in Problem where more is
// inlined.
#include <gtest/gtest.h>

#include "base/error.h"
#include "measure/protocol.h"

namespace fusetune::measure {
namespace {

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return at == std::string::npos ? "" : text.replace(at, from.size(), to);
}

// No user wrote them, so they are no UsageError.
TEST(Protocol, BrokenPartsAreOurBug) {
  Request request;
  request.plans.emplace_back().emplace_back();
  const std::string text = encode(request);
  for (const std::string& broken :
       {changed(text, "data=uniform", "datq=uniform"), changed(text, "handoff=", "handover="),
        changed(text, "\"model\"", "\"no mode\"")}) {
    EXPECT_THROW(decode_request(broken), base::InternalError) << broken;
  }
  EXPECT_THROW(decode_reply(changed(encode(Reply{}), "\"skipped\"", "\"fine\"")), base::InternalError);
}

}  // namespace
}  // namespace fusetune::measure
