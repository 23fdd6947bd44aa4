#include "cli/command.h"

#include <array>

#include "measure/worker.h"

namespace fusetune::cli {
namespace {

int run_worker(Options& options) {
  options.parse();
  return measure::worker_main();
}

constexpr std::array kCommands = {
    Command{"translate", "what fusion masks mean: one line per mask",
            "  fusetune translate 0001101010101010        prints 6826 0 2 1 2 3 4\n"
            "  fusetune translate 48996 --explain",
            run_translate},
    Command{"encode", "segments to the canonical mask that names them",
            "  fusetune encode --segment 3-7 8-15 --hand-written", run_encode},
    Command{"space", "counts and lists the plans there are",
            "  fusetune space\n"
            "  fusetune space --list --filter 'kernels<=4' --filter handwritten --csv",
            run_space},
    Command{"generate", "writes the generated sources of a plan, one kernel per segment",
            "  fusetune generate 48996 --out kernels.out\n"
            "  fusetune generate 0x7fff --preset minilm-l6 --standalone --compile\n"
            "  fusetune generate --all-segments --target cuda --arch sm_90a --dtype f16 --compile",
            run_generate},
    Command{"search", "finds the best plan for a problem", "  fusetune search --preset bert-base --seq 128",
            run_search},
    Command{"run", "runs the block once and checks its output",
            "  fusetune run 48996 --weights model.safetensors --input x.npy --output y.npy", run_run},
    Command{"verify", "checks the kernels of a plan against the float64 reference",
            "  fusetune verify 48996 --seq 64\n"
            "  fusetune verify --all-segments --preset minilm-l6 --mask causal\n"
            "  fusetune verify 48996 --backend simt --seq 65 --dtype f16",
            run_verify},
    Command{"bench", "times plans side by side, interleaved", "  fusetune bench 10922 48996 0 --pairs 40",
            run_bench},
    Command{"train", "fits the cost model to recorded measurements",
            "  fusetune train --data train_data_xgboost.txt\n"
            "  fusetune train --db fusetune.db --out bert.json\n"
            "  fusetune train --db fusetune.db --segments --out kernels.json",
            run_train},
    Command{"predict", "predicts the time of plans with the cost model",
            "  fusetune predict 0100010111011101           prints the time and 1 (High Performance) or 0\n"
            "  fusetune predict --all --csv --cost-model bert.json",
            run_predict},
    Command{"evaluate", "says how good cost model and strategies are on recorded data",
            "  fusetune evaluate --data train_data_xgboost.txt\n"
            "  fusetune evaluate --db fusetune.db --segments\n"
            "  fusetune evaluate --strategies all --replay fusetune.db --repeats 20 --chart strategies.html",
            run_evaluate},
    Command{"db", "looks at, compares, moves and removes recorded measurements",
            "  fusetune db stats\n"
            "  fusetune db export --csv --table plans\n"
            "  fusetune db export --jsonl=records.jsonl --environment 3fa9\n"
            "  fusetune db import records.jsonl --db other.db\n"
            "  fusetune db merge other.db\n"
            "  fusetune db prune --older-than 90 --outcome failed --dry-run\n"
            "  fusetune db diff before.db after.db --table segments",
            run_db},
    Command{"devices", "lists what kernels can run on", "  fusetune devices --json", run_devices},
    Command{"doctor", "says what is here, what is missing and how to get it", "  fusetune doctor",
            run_doctor},
    Command{"profile", "times each kernel of a plan",
            "  fusetune profile 48996 --preset bert-base --seq 128\n"
            "  fusetune profile 10922 --trace unfused.json --csv=kernels.csv",
            run_profile},
    Command{"export", "writes a bundle for C and PyTorch that runs without fusetune",
            "  fusetune export best --preset bert-base --out bundle\n"
            "  fusetune export 48996 --name encoder --seq 64 --mask causal --out bundle",
            run_export},
    Command{"explain", "says what each border of a plan saves and costs",
            "  fusetune explain 48996 --preset minilm-l6\n"
            "  fusetune explain 20480 --preset bert-base --seq 64 --csv",
            run_explain},
    Command{"report", "writes one HTML page about a search",
            "  fusetune report                             the newest search of fusetune.db, as report.html\n"
            "  fusetune report --db records.jsonl.gz --run 3 --out search3.html",
            run_report},
    Command{"worker", "runs candidates for another fusetune process", "", run_worker, true},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace fusetune::cli
