"""The systems of scaler_trajectories.json as rules of autoamp's scalers."""
MINDSPORE = ("scale_value", "scale_factor", "scale_window")
# By system: the rule, and its arguments of new() by parameter of the system.
RULES = {
    "torch": ("torch", {"init_scale": "scale", "growth_factor": "growth", "backoff_factor": "backoff", "growth_interval": "interval"}),
    "paddle": ("paddle", {"init_loss_scaling": "scale", "incr_ratio": "growth", "decr_ratio": "backoff", "incr_every_n_steps": "interval",
                          "decr_every_n_nan_or_inf": "every"}),
    "mindspore_scaler": ("mindspore", dict(zip(MINDSPORE, ("scale", "growth", "interval")))),
    "deepspeed": ("deepspeed", {"init_scale": "scale", "scale_window": "interval", "min_scale": "least", "delayed_shift": "hysteresis"}),
    "megatron": ("megatron", {"initial_scale": "scale", "growth_factor": "growth", "backoff_factor": "backoff",
                              "growth_interval": "interval", "hysteresis": "hysteresis", "min_scale": "least"}),
    "jmp": ("jmp", {"loss_scale": "scale", "factor": "growth", "period": "interval", "min_loss_scale": "least"}),
    "keras": ("keras", {"initial_scale": "scale", "dynamic_growth_steps": "interval"}),
}
RULES |= {"paddle_kernel": ("paddle_kernel", RULES["paddle"][1]), "mindspore_cell": ("mindspore_cell", RULES["mindspore_scaler"][1]),
          "mindspore_manager": ("mindspore_manager", RULES["mindspore_scaler"][1]),
          "apex_hysteresis": ("apex", {**RULES["torch"][1], "hysteresis": "hysteresis"})}
# Columns of the tracker and of the other counter. Some systems store the number of the step instead.
COLUMNS = {"torch": ("growth_tracker", None), "paddle": ("incr_count", "decr_count"), "paddle_kernel": ("good_steps", "bad_steps"),
           "mindspore_scaler": ("counter", None), "mindspore_cell": (None, None), "mindspore_manager": (None, "bad_step"),
           "deepspeed": (None, "cur_hysteresis"), "megatron": ("growth_tracker", "hysteresis_tracker"),
           "apex_hysteresis": ("growth_tracker", "hysteresis_tracker"), "jmp": ("counter", None), "keras": ("step_counter", None)}
# The arguments of autoamp.GradScaler.
PYTHON = {"scale": "init_scale", "growth": "growth_factor", "backoff": "backoff_factor", "interval": "growth_interval",
          "every": "backoff_every", "least": "min_scale"}
CONSECUTIVE, STOPS = 1, 2  # AUTOAMP_SCALER_CONSECUTIVE and AUTOAMP_SCALER_STOPS


def arguments(system, parameters):
    """The rule and its parameters."""
    rule, names = RULES[system]
    flags = (CONSECUTIVE * parameters.get("consecutive_hysteresis", False) + STOPS * parameters.get("raise_error_at_min_scale", False))
    return rule, {**{names[name]: value for name, value in parameters.items() if name in names}, "flags": flags}


def is_fixed(parameters):
    return not parameters.get("use_dynamic_loss_scaling", True) or parameters.get("stop_update", False)


def counters(system, case, i):
    """The tracker and the other counter after step i."""
    tracker, other = COLUMNS[system]
    return [case[tracker][i] if tracker else case["cur_iter"][i] - case["last_overflow_iter"][i] - 1] + ([case[other][i]] if other else [])


def is_stepped(system, case, i):
    """Without this column, the system skips steps with an Inf. That of Keras is the question whether the variable changed, which it
    does not if the scale is Inf, or the variable huge."""
    return bool(case["stepped"][i]) if "stepped" in case and system != "keras" else not case["found_inf"][i]
