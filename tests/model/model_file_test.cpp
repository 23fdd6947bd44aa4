#include "model/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "synthetic.h"

namespace fusetune::model {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

CostModel fitted(std::uint64_t seed = 0) {
  TrainOptions options;
  options.seed = seed;
  options.rounds = 20;
  return std::move(*CostModel::train(synthetic_set(100), options).model);
}

class ModelFileTest : public testing::Test {
 protected:
  base::TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "cost_model.json";
  std::filesystem::path sidecar_ = directory_.path() / "cost_model.meta.json";

  void SetUp() override { fitted().save(file_); }

  /// Why the files are refused.
  std::string refusal() const {
    try {
      CostModel::load(file_);
    } catch (const BadModelFile& error) {
      return error.what();
    }
    return "accepted";
  }
  void edit_sidecar(const std::function<void(json&)>& edit) const {
    json sidecar = json::parse(base::read_file(sidecar_));
    edit(sidecar);
    base::write_file_atomic(sidecar_, sidecar.dump());
  }
  /// A change that somebody made with care: the sidecar's hash follows.
  void edit_model(const std::function<void(json&)>& edit) const {
    json document = json::parse(base::read_file(file_));
    edit(document);
    base::write_file_atomic(file_, document.dump());
    edit_sidecar([&](json& sidecar) { sidecar["model_hash"] = base::hash_hex(document.dump()); });
  }
};

TEST_F(ModelFileTest, IsReadBackAsItWas) {
  const std::vector<plan::FusionPlan> plans = some_plans(200, 2);
  CostModel written = fitted();
  written.info().unit = "us";
  written.info().environment = "made up";
  written.info().metrics = {{"spearman", 0.5}};
  written.save(file_);
  const CostModel read = CostModel::load(file_);
  const auto expected = written.predict(plans), got = read.predict(plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_EQ(got[i].time, expected[i].time);
    EXPECT_EQ(got[i].probability, expected[i].probability);
  }
  EXPECT_EQ(read.info().unit, "us");
  EXPECT_EQ(read.info().environment, "made up");
  EXPECT_EQ(read.info().metrics.at("spearman"), 0.5);
  EXPECT_EQ(read.info().training_hash, written.info().training_hash);
  EXPECT_EQ(read.info().groups, written.info().groups);
  EXPECT_EQ(read.info().rows, 100);
}

TEST_F(ModelFileTest, TheSameSeedWritesTheSameBytes) {
  const std::string model = base::read_file(file_), sidecar = base::read_file(sidecar_);
  fitted().save(file_);
  EXPECT_EQ(base::read_file(file_), model);
  EXPECT_EQ(base::read_file(sidecar_), sidecar);
  fitted(1).save(file_);
  EXPECT_NE(base::read_file(file_), model);
}

TEST_F(ModelFileTest, WrittenAgainAfterReadingItIsTheSameModel) {
  const std::vector<plan::FusionPlan> plans = some_plans(50, 2);
  const double before = CostModel::load(file_).predict(plans)[0].time;
  CostModel::load(file_).save(file_);
  EXPECT_EQ(CostModel::load(file_).predict(plans)[0].time, before);
}

TEST_F(ModelFileTest, NotThereIsNotTheSameAsBad) {
  EXPECT_THROW(CostModel::load(directory_.path() / "none.json"), base::EnvironmentError);
  std::filesystem::remove(sidecar_);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("needs its sidecar"), HasSubstr("cost_model.meta.json")));
}

TEST_F(ModelFileTest, WhateverIsCutOffIsRefused) {
  const std::string whole = base::read_file(file_), sidecar = base::read_file(sidecar_);
  for (const double part : {0.0, 0.1, 0.5, 0.9}) {
    base::write_file_atomic(
        file_, whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))));
    EXPECT_THAT(refusal(), AllOf(HasSubstr("cost_model.json"),
                                 testing::AnyOf(HasSubstr("cut off"), HasSubstr("is empty"))));
  }
  base::write_file_atomic(file_, whole);
  base::write_file_atomic(sidecar_, sidecar.substr(0, sidecar.size() / 2));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("cost_model.meta.json"), HasSubstr("cut off")));
  base::write_file_atomic(sidecar_, sidecar);
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(ModelFileTest, ForeignFilesAreRefused) {
  const auto with = [&](const std::string& content) {
    base::write_file_atomic(file_, content);
    return refusal();
  };
  EXPECT_THAT(with("bits value\n0100010111011101 54.5\n"), HasSubstr("not JSON"));
  EXPECT_THAT(with(std::string("\x7f"
                               "ELF\0\0\0",
                               7)),
              HasSubstr("not JSON"));
  EXPECT_THAT(with("[1, 2]"), HasSubstr("some other program's JSON"));
  EXPECT_THAT(with(R"({"learner": {}, "version": [1, 7, 4]})"), HasSubstr("some other program's JSON"));
  EXPECT_THAT(with(R"({"fusetune_cost_model": 2})"), HasSubstr("format 2, this version reads format 1"));
  EXPECT_THAT(with(R"({"fusetune_cost_model": "1"})"), HasSubstr("format \"1\""));
}

TEST_F(ModelFileTest, DeepNestingIsRefusedBeforeAnybodyRecurses) {
  for (const char* bracket : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) text += bracket;
    base::write_file_atomic(file_, text);
    EXPECT_THAT(refusal(), HasSubstr("brackets nest more than 32 deep"));
  }
  base::write_file_atomic(file_,
                          R"({"fusetune_cost_model": 3, "text": ")" + std::string(100, '[') + R"(\""})");
  EXPECT_THAT(refusal(), HasSubstr("format 3")) << "brackets inside a text nest nothing";
}

TEST_F(ModelFileTest, AModelOfOtherFeaturesIsRefusedByTheirNames) {
  edit_sidecar([](json& sidecar) { sidecar["features"].erase(0); });
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("fitted to 33 features, this version has 34"), HasSubstr("without bit0")));
  edit_sidecar([](json& sidecar) { sidecar["features"].push_back("moon_phase"); });
  EXPECT_THAT(refusal(), AllOf(HasSubstr("without bit0"), HasSubstr("with moon_phase, unknown here")));
  SetUp();
  edit_sidecar([](json& sidecar) { sidecar["features"].push_back("moon_phase"); });
  EXPECT_THAT(refusal(), HasSubstr("fitted to 35 features, this version has 34, with moon_phase"));
  SetUp();
  edit_sidecar([](json& sidecar) { std::swap(sidecar["features"][0], sidecar["features"][1]); });
  EXPECT_THAT(refusal(), HasSubstr("in another order"));
  SetUp();
  edit_sidecar([](json& sidecar) { sidecar["schema_hash"] = "0"; });
  EXPECT_THAT(refusal(), HasSubstr("of another schema"));
  SetUp();
  edit_model([](json& model) { model["regressor"]["learner"]["learner_model_param"]["num_feature"] = "33"; });
  EXPECT_THAT(refusal(), HasSubstr("regressor: its trees were fitted to 33 features, not 34"));
}

TEST_F(ModelFileTest, AnotherVersionIsRefused) {
  edit_sidecar([](json& sidecar) { sidecar["xgboost"] = "2.1.0"; });
  EXPECT_THAT(refusal(), HasSubstr("XGBoost 2.1.0 wrote it"));
  edit_sidecar([](json& sidecar) { sidecar["fusetune_cost_model"] = 0; });
  EXPECT_THAT(refusal(), HasSubstr("format 0"));
}

TEST_F(ModelFileTest, AModelBesideAnothersSidecarIsRefused) {
  const std::string old = base::read_file(sidecar_);
  fitted(1).save(file_);
  base::write_file_atomic(sidecar_, old);
  EXPECT_THAT(refusal(), HasSubstr("it describes another model"));
}

TEST_F(ModelFileTest, DamageThatIsStillJsonDoesNotReachXgboost) {
  const auto tree = [](json& model) -> json& {
    return model["classifier"]["learner"]["gradient_booster"]["model"]["trees"][0];
  };
  const auto damaged = [&](const std::function<void(json&)>& edit) {
    SetUp();
    edit_model(edit);
    return refusal();
  };
  EXPECT_THAT(damaged([](json& m) { m["classifier"].erase("learner"); }),
              HasSubstr("classifier is incomplete"));
  EXPECT_THAT(damaged([](json& m) { m["regressor"] = 7; }), HasSubstr("regressor is incomplete"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["split_conditions"].erase(0); }), HasSubstr("split_conditions"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["left_children"][0] = 1'000'000; }), HasSubstr("lead nowhere"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["left_children"][0] = 0; }), HasSubstr("circle"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["right_children"][0] = -1; }), HasSubstr("half a branch"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["split_indices"][0] = 34; }),
              HasSubstr("feature that is not there"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["tree_param"]["num_nodes"] = "99999999999"; }),
              HasSubstr("a tree's"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["left_children"][0] = "x"; }), HasSubstr("not all numbers"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["base_weights"][0] = nullptr; }), HasSubstr("not all numbers"));
  EXPECT_THAT(damaged([&](json& m) { tree(m)["split_type"][0] = 1; }), HasSubstr("splits by categories"));
  EXPECT_THAT(damaged([](json& m) { m["regressor"].erase("version"); }),
              HasSubstr("regressor is incomplete"));
  EXPECT_THAT(damaged([](json& m) {
                m["regressor"]["version"] = {2, 1, 0};
              }),
              HasSubstr("XGBoost 2.1.0 wrote it"));
  EXPECT_THAT(
      damaged([](json& m) { m["classifier"]["learner"]["gradient_booster"]["model"]["trees"].erase(0); }),
      HasSubstr("has 19 trees and says 20"));
  EXPECT_THAT(damaged([](json& m) { m["classifier"]["learner"]["gradient_booster"]["name"] = "gblinear"; }),
              HasSubstr("not made of trees"));
}

// XGBoost would write past its predictions, run out of memory, or save a model that does not read back.
TEST_F(ModelFileTest, OutputsThatAreNotThereDoNotReachXgboost) {
  const auto damaged = [&](const std::function<void(json&)>& edit) {
    SetUp();
    edit_model([&](json& model) { edit(model["regressor"]["learner"]); });
    return refusal();
  };
  const auto model = [](json& learner) -> json& { return learner["gradient_booster"]["model"]; };
  const auto tree = [&](json& learner) -> json& { return model(learner)["trees"][0]; };
  EXPECT_THAT(damaged([&](json& l) { tree(l)["sum_hessian"][0] = 5e128; }), HasSubstr("not all numbers"));
  EXPECT_THAT(damaged([&](json& l) { tree(l)["left_children"][0] = 1e300; }), HasSubstr("not all numbers"));
  EXPECT_THAT(damaged([&](json& l) { tree(l)["categories_nodes"] = {0}; }), HasSubstr("by categories"));
  EXPECT_THAT(damaged([&](json& l) { tree(l)["tree_param"]["num_nodes"] = "0"; }), HasSubstr("no node"));
  EXPECT_THAT(damaged([&](json& l) { model(l)["tree_info"][0] = 5; }), HasSubstr("output that is not there"));
  EXPECT_THAT(damaged([&](json& l) { model(l)["gbtree_model_param"]["num_parallel_tree"] = "0"; }),
              HasSubstr("several trees a round"));
  EXPECT_THAT(damaged([](json& l) { l["learner_model_param"]["num_class"] = "1000000000"; }),
              HasSubstr("several outputs"));
  EXPECT_THAT(damaged([](json& l) { l["learner_model_param"]["base_score"] = "nan"; }),
              HasSubstr("base_score"));
  EXPECT_THAT(damaged([](json& l) { l["objective"]["name"] = "multi:softmax"; }),
              HasSubstr("not reg:squarederror"));
}

TEST_F(ModelFileTest, WhereItCannotBeWrittenTheErrorSaysSo) {
  EXPECT_THROW(fitted().save(directory_.path() / "no-such-directory" / "m.json"), base::EnvironmentError);
}

TEST(SidecarName, FollowsTheModels) {
  EXPECT_EQ(sidecar_of("a/cost_model.json"), "a/cost_model.meta.json");
  EXPECT_EQ(sidecar_of("model.bin"), "model.bin.meta.json");
  EXPECT_EQ(sidecar_of("model"), "model.meta.json");
}

}  // namespace
}  // namespace fusetune::model
