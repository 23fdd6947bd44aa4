#include "store/plan_records.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "store/database.h"
#include "store/json_text.h"
#include "store/plan_rows.h"

namespace fusetune::store {

PlanRecords read_plan_records(const std::filesystem::path& path) {
  StoreOptions options;
  options.access = Access::existing;
  PlanRecords records;
  const Connection connection(path, options);
  connection.reading("reading the plans", [&](SQLite::Database& database) {
    SQLite::Statement environments(database,
                                   "SELECT fingerprint, fields FROM environment WHERE id IN"
                                   " (SELECT environment FROM plan_measurement) ORDER BY id");
    while (environments.executeStep())
      records.environments.push_back({environments.getColumn("fingerprint").getString(),
                                      fields_from_json(environments.getColumn("fields").getString())});
    SQLite::Statement plans(database, std::string(kSelectPlans) + "s.outcome <> 'started' ORDER BY s.id");
    while (plans.executeStep()) records.plans.push_back(read_plan(plans).record);
  });
  return records;
}

}  // namespace fusetune::store
