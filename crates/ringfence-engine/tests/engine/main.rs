//! The engine from outside: calls, sessions, cancellation, admission, and what is written down of each.
//! Has a `main` of its own, because the launcher must be started before there are threads.

#![allow(clippy::disallowed_methods)]

mod apart;
mod calls;
mod search;
mod sessions;
mod world;

use std::process::ExitCode;

use ringfence_testing::BoundedCommand as _;
use world::World;

type Test = fn(&World);

const TESTS: &[(&str, Test)] = &[
    ("a_program_runs_and_is_written_down", calls::a_program_runs_and_is_written_down),
    (
        "each_level_of_speedups_runs_the_same_and_is_in_the_metrics",
        calls::each_level_of_speedups_runs_the_same_and_is_in_the_metrics,
    ),
    (
        "a_zygote_that_dies_is_replaced_while_the_others_serve",
        calls::a_zygote_that_dies_is_replaced_while_the_others_serve,
    ),
    ("a_command_runs_and_is_written_down", calls::a_command_runs_and_is_written_down),
    (
        "a_working_directory_that_a_run_replaced_is_not_followed",
        calls::a_working_directory_that_a_run_replaced_is_not_followed,
    ),
    ("what_screening_refuses_does_not_run", calls::what_screening_refuses_does_not_run),
    ("a_client_can_only_narrow_its_time", calls::a_client_can_only_narrow_its_time),
    ("a_dropped_call_ends_its_processes", calls::a_dropped_call_ends_its_processes),
    ("a_rejected_call_says_when_to_come_again", calls::a_rejected_call_says_when_to_come_again),
    ("rules_refuse_and_alerts_are_raised", calls::rules_refuse_and_alerts_are_raised),
    ("secrets_are_not_written_down", calls::secrets_are_not_written_down),
    (
        "two_engines_of_one_process_end_each_for_itself",
        calls::two_engines_of_one_process_end_each_for_itself,
    ),
    ("while_the_ledger_is_full_nothing_runs", calls::while_the_ledger_is_full_nothing_runs),
    ("a_panic_is_one_calls_problem", calls::a_panic_is_one_calls_problem),
    ("results_are_kept_by_the_memory_they_hold", calls::results_are_kept_by_the_memory_they_hold),
    ("the_last_handle_ends_everything", calls::the_last_handle_ends_everything),
    ("a_session_keeps_variables_and_files", sessions::a_session_keeps_variables_and_files),
    (
        "a_cell_lists_the_files_it_made_or_changed",
        sessions::a_cell_lists_the_files_it_made_or_changed,
    ),
    ("foreign_and_unknown_ids_are_alike", sessions::foreign_and_unknown_ids_are_alike),
    ("a_fork_is_a_copy", sessions::a_fork_is_a_copy),
    ("rollback_takes_variables_back", sessions::rollback_takes_variables_back),
    ("sessions_live_and_die_to_the_second", sessions::sessions_live_and_die_to_the_second),
    ("a_quota_ends_the_cell_that_passes_it", sessions::a_quota_ends_the_cell_that_passes_it),
    ("files_of_a_session_are_its_owners", sessions::files_of_a_session_are_its_owners),
    ("a_dropped_search_gives_its_place_back", sessions::a_dropped_search_gives_its_place_back),
    ("closing_ends_the_cell_that_runs", sessions::closing_ends_the_cell_that_runs),
    ("closing_ends_the_command_that_runs", sessions::closing_ends_the_command_that_runs),
    (
        "a_session_closed_elsewhere_is_removed_after_its_last_run",
        sessions::a_session_closed_elsewhere_is_removed_after_its_last_run,
    ),
    (
        "closing_removes_trees_of_any_depth_and_permissions",
        sessions::closing_removes_trees_of_any_depth_and_permissions,
    ),
    (
        "what_a_killed_maker_left_is_no_session_and_goes",
        sessions::what_a_killed_maker_left_is_no_session_and_goes,
    ),
    (
        "the_interpreters_of_an_owner_are_limited",
        sessions::the_interpreters_of_an_owner_are_limited,
    ),
    ("a_changed_state_is_refused", sessions::a_changed_state_is_refused),
    (
        "a_search_sees_what_was_written_and_not_what_is_gone",
        search::a_search_sees_what_was_written_and_not_what_is_gone,
    ),
    (
        "a_program_searches_filters_and_aggregates_in_one_call",
        search::a_program_searches_filters_and_aggregates_in_one_call,
    ),
    (
        "a_session_goes_on_after_threads_and_closed_streams",
        sessions::a_session_goes_on_after_threads_and_closed_streams,
    ),
    (
        "no_process_of_a_session_wakes_itself_or_another",
        sessions::no_process_of_a_session_wakes_itself_or_another,
    ),
    ("random_numbers_go_on_from_cell_to_cell", sessions::random_numbers_go_on_from_cell_to_cell),
    ("no_fork_is_kept_from_the_host", sessions::no_fork_is_kept_from_the_host),
    (
        "a_program_keeps_no_large_results_in_the_hosts_memory",
        search::a_program_keeps_no_large_results_in_the_hosts_memory,
    ),
    (
        "calls_of_a_program_are_counted_and_end_with_it",
        search::calls_of_a_program_are_counted_and_end_with_it,
    ),
    (
        "a_program_finds_what_it_has_just_written_among_many_files",
        search::a_program_finds_what_it_has_just_written_among_many_files,
    ),
    (
        "a_search_ranks_by_meaning_if_an_embedder_is_given",
        search::a_search_ranks_by_meaning_if_an_embedder_is_given,
    ),
    ("no_search_returns_another_sessions_text", search::no_search_returns_another_sessions_text),
    ("a_damaged_index_is_built_again", search::a_damaged_index_is_built_again),
    (
        "hostile_files_are_indexed_or_left_out_with_a_reason",
        search::hostile_files_are_indexed_or_left_out_with_a_reason,
    ),
    (
        "pieces_of_a_file_come_in_pages_and_name_it_plainly",
        search::pieces_of_a_file_come_in_pages_and_name_it_plainly,
    ),
    (
        "searches_and_index_jobs_have_a_daily_quota",
        search::searches_and_index_jobs_have_a_daily_quota,
    ),
    ("no_read_returns_another_sessions_byte", apart::no_read_returns_another_sessions_byte),
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    if std::env::args().any(|arg| arg == "--list") {
        for (name, _) in TESTS {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut n_failed = 0;
    for (name, test) in TESTS {
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        // A process each: a launcher is a fork of a process without threads.
        let own = std::env::current_exe().unwrap();
        if std::env::var_os("RINGFENCE_ENGINE_TEST").is_some_and(|only| only == *name) {
            test(&World::new());
            return ExitCode::SUCCESS;
        }
        if std::env::var_os("RINGFENCE_ENGINE_TEST").is_some() {
            continue;
        }
        let status = std::process::Command::new(own)
            .env("RINGFENCE_ENGINE_TEST", name)
            // Some of them try hundreds of cases.
            .bounded_status_within(5 * ringfence_testing::limit())
            .unwrap();
        println!("test {name} ... {}", if status.success() { "ok" } else { "FAILED" });
        n_failed += usize::from(!status.success());
    }
    ExitCode::from(u8::from(n_failed > 0))
}
