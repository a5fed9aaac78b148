// SPDX-License-Identifier: Apache-2.0
// Deprecated forms that DeepSpeed 0.19 still accepts, and names without stage3_, which it accepts beside those with it. Each
// is replaced by entries in the current form.
#include "config/deepspeed/deepspeed_file.hpp"

namespace shoal::config {

namespace {

using Kind = JsonEntry::Kind;

const std::string zero = "zero_optimization", old_bf16 = "bfloat16";

/// The row of the key that has stage3_ in front of this name; nullptr if there is none.
const DeepSpeedKey* with_stage3(const std::string& path) {
  const std::string block = zero + ".";
  const bool member = path.starts_with(block) && path.find('.', block.size()) == std::string::npos;
  return member ? find_deepspeed(block + "stage3_" + path.substr(block.size())) : nullptr;
}

struct OldForm {
  std::vector<JsonEntry> today;
  std::string rival;  ///< the current key for the same setting: an error if both are given
  std::string note;   ///< empty: there is nothing to say about it
};

/// The block {"device": "cpu"} for true, nothing for false.
OldForm offload_form(const JsonEntry& entry, const std::string& name) {
  const std::string block = zero + "." + name;
  if (entry.value == "false") return {{}, block, "deprecated; nothing is offloaded"};
  return {{{block, Kind::object, "", entry.line}, {block + ".device", Kind::text, "cpu", entry.line}},
          block,
          "deprecated; read as \"" + name + "\": {\"device\": \"cpu\"}"};
}

std::optional<OldForm> old_form(const JsonEntry& entry) {
  const std::string gather = "stage3_gather_16bit_weights_on_model_save";
  const bool flag = entry.kind == Kind::flag;
  if (entry.path == zero && flag) {
    const std::string stage = entry.value == "true" ? "1" : "0";
    return {{{{zero + ".stage", Kind::number, stage, entry.line}},
             "",
             "deprecated; read as \"" + zero + "\": {\"stage\": " + stage + "}"}};
  }
  if (entry.path == zero + ".cpu_offload" && flag) return offload_form(entry, "offload_optimizer");
  if (entry.path == zero + ".cpu_offload_param" && flag) return offload_form(entry, "offload_param");
  if (entry.path == zero + ".cpu_offload_use_pin_memory" && flag) {
    return {{{}, "", "deprecated; has no effect here: host memory is pinned if a device needs it"}};
  }
  if (entry.path == zero + ".stage3_gather_fp16_weights_on_model_save" && flag) {
    const std::string path = zero + "." + gather;
    return {{{{path, entry.kind, entry.value, entry.line}}, path, "deprecated; read as \"" + gather + "\""}};
  }
  if (entry.path == old_bf16 && entry.kind == Kind::object) {
    return {{{{"bf16", entry.kind, "", entry.line}}, "bf16", "deprecated; read as \"bf16\""}};
  }
  if (entry.path.starts_with(old_bf16 + ".")) {
    return {{{{"bf16" + entry.path.substr(old_bf16.size()), entry.kind, entry.value, entry.line}}, "", ""}};
  }
  const DeepSpeedKey* const named = with_stage3(entry.path);
  if (named != nullptr) return {{{{named->path, entry.kind, entry.value, entry.line}}, named->path, ""}};
  return {};
}

}  // namespace

bool DeepSpeedFile::has_old_zero() const { return written_path(zero + ".stage") == zero; }

bool DeepSpeedFile::take_old(const JsonEntry& entry) {
  const std::optional<OldForm> old = old_form(entry);
  if (!old) return false;
  const auto is_rival = [&](const JsonEntry& other) { return other.path == old->rival && other.kind != Kind::null; };
  if (std::any_of(json_.entries.begin(), json_.entries.end(), is_rival)) {
    problem(entry.path, "is given together with ", old->rival, "; remove one of the two");
    skipped_ = entry.path;
    return true;
  }
  if (!old->note.empty()) note(entry.path, old->note);
  given_.erase(entry.path);
  for (const JsonEntry& today : old->today) take_today(today, entry);
  return true;
}

}  // namespace shoal::config
