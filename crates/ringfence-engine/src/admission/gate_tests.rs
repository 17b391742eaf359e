//! Tests of the gate, with a clock that stands still.

use super::*;
use crate::clock::TestClock;
use ringfence_spec::Code;

fn gate(settings: AdmissionSettings) -> (Admission, Arc<TestClock>) {
    let clock = Arc::new(TestClock::at_ms(1_000_000));
    (Admission::new(settings, Arc::clone(&clock) as Arc<dyn Clock>), clock)
}

fn limits(concurrent: usize, queue: usize) -> AdmissionSettings {
    AdmissionSettings {
        concurrent: Some(concurrent),
        queue: Some(queue),
        ..AdmissionSettings::default()
    }
}

#[tokio::test]
async fn without_settings_everybody_runs() {
    let (gate, _) = gate(AdmissionSettings::default());
    let mut permits = Vec::new();
    for _ in 0..1000 {
        permits.push(gate.admit("a").await.unwrap());
    }
    assert_eq!(gate.counts().running, 1000);
    drop(permits);
    assert_eq!(gate.counts().running, 0);
}

#[tokio::test]
async fn the_rate_is_each_clients_own() {
    let settings = AdmissionSettings { rate_per_minute: Some(3), ..Default::default() };
    let (gate, clock) = gate(settings);
    for _ in 0..3 {
        gate.admit("a").await.unwrap();
    }
    let refused = gate.admit("a").await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.retry_after_ms), ("rate_limited", 20_000));
    gate.admit("b").await.unwrap();
    clock.advance_ms(20_000);
    gate.admit("a").await.unwrap();
}

#[tokio::test]
async fn a_full_queue_turns_away_and_a_free_place_lets_in() {
    let (gate, _) = gate(limits(1, 1));
    let first = gate.admit("a").await.unwrap();
    let second = tokio::spawn({
        let gate = gate.clone();
        async move { gate.admit("a").await.map(drop) }
    });
    tokio::task::yield_now().await;
    assert_eq!(gate.admit("a").await.unwrap_err().code.as_str(), "queue_full");
    drop(first);
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_newcomer_takes_a_place_from_the_client_that_fills_the_queue() {
    let (gate, _) = gate(limits(1, 4));
    let first = gate.admit("flood").await.unwrap();
    let wait = |name: &'static str| {
        let gate = gate.clone();
        tokio::spawn(async move { gate.admit(name).await.map(|permit| (name, permit)) })
    };
    let floods: Vec<_> = (0..4).map(|_| wait("flood")).collect();
    tokio::task::yield_now().await;
    let honest = wait("honest");
    tokio::task::yield_now().await;
    assert_eq!(gate.counts().queued, 4);
    drop(first);
    // By turn: the flood was served before, so the newcomer is next, although three calls came before it.
    let mut order = Vec::new();
    let mut n_rejected = 0;
    let mut pending: Vec<_> = floods.into_iter().chain([honest]).collect();
    while !pending.is_empty() {
        let mut rest = Vec::new();
        for task in pending {
            if task.is_finished() {
                match task.await.unwrap() {
                    Ok((name, permit)) => {
                        order.push(name);
                        drop(permit);
                    }
                    Err(_) => n_rejected += 1,
                }
            } else {
                rest.push(task);
            }
        }
        pending = rest;
        tokio::task::yield_now().await;
    }
    assert_eq!(n_rejected, 1);
    assert_eq!(order[..2], ["honest", "flood"]);
}

#[tokio::test]
async fn with_more_clients_than_places_each_is_served_before_any_is_again() {
    let settings = AdmissionSettings { rate_per_minute: Some(100), ..limits(2, 5) };
    let (gate, _) = gate(settings);
    let mut n_served = [0u32; 20];
    let names: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let mut waiting: Vec<_> = names.iter().map(|_| None).collect();
    let mut running = VecDeque::new();
    // All clients ask all the time, the most served first.
    for _ in 0..2000 {
        let mut order: Vec<usize> = (0..20).collect();
        order.sort_by_key(|n| std::cmp::Reverse(n_served[*n]));
        for n in order {
            let ask = waiting[n].get_or_insert_with(|| Box::pin(gate.admit(&names[n])));
            match poll_once(ask.as_mut()).await {
                Some(Ok(permit)) => {
                    n_served[n] += 1;
                    running.push_back(permit);
                    waiting[n] = None;
                }
                Some(Err(rejection)) => {
                    // No client is served more often than its rate allows, and a rejected call does not count.
                    assert!(rejection.code == Code::QueueFull || n_served[n] == 100);
                    waiting[n] = None;
                }
                None => {}
            }
        }
        drop(running.pop_front());
        // The tokio runtime delivers nothing new to a task that never yields.
        tokio::task::yield_now().await;
    }
    let (least, most) = (n_served.iter().min().unwrap(), n_served.iter().max().unwrap());
    assert!(*least >= 90 && most - least <= 2, "{n_served:?}");
}

#[tokio::test]
async fn who_leaves_the_queue_gives_the_place_back() {
    let (gate, _) = gate(limits(1, 5));
    let first = gate.admit("a").await.unwrap();
    let waiting = tokio::spawn({
        let gate = gate.clone();
        async move { gate.admit("b").await.map(drop) }
    });
    tokio::task::yield_now().await;
    assert_eq!(gate.counts().queued, 1);
    waiting.abort();
    let _ = waiting.await;
    assert_eq!(gate.counts().queued, 0);
    drop(first);
    gate.admit("c").await.unwrap();
    assert_eq!(gate.counts().running, 0);
}

#[tokio::test]
async fn who_comes_and_goes_has_one_turn() {
    let (gate, _) = gate(limits(1, 5));
    let _first = gate.admit("a").await.unwrap();
    for _ in 0..100 {
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.admit("b").await.map(drop) }
        });
        tokio::task::yield_now().await;
        waiting.abort();
        let _ = waiting.await;
    }
    assert!(gate.shared.lock().turns.is_empty());
}

#[tokio::test]
async fn who_was_turned_away_and_left_frees_nobodys_place() {
    let (gate, _) = gate(limits(1, 2));
    let _first = gate.admit("a").await.unwrap();
    // Polled once, so that they are in the queue; not again, so that they never receive the answer.
    let mut flood = [Box::pin(gate.admit("flood")), Box::pin(gate.admit("flood"))];
    for waiting in &mut flood {
        assert!(poll_once(waiting.as_mut()).await.is_none());
    }
    let mut honest = Box::pin(gate.admit("honest"));
    assert!(poll_once(honest.as_mut()).await.is_none());
    drop(flood);
    assert_eq!((gate.counts().running, gate.counts().queued), (1, 1));
}

/// Polls once.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn one_clients_breaker_is_not_anothers() {
    let settings = AdmissionSettings { breakers: true, ..Default::default() };
    let (gate, clock) = gate(settings);
    for _ in 0..10 {
        gate.admit("bad").await.unwrap().judge(BreakerVerdict::Abusive);
    }
    assert_eq!(gate.breaker_of("bad"), BreakerState::Open);
    assert_eq!(gate.admit("bad").await.unwrap_err().code.as_str(), "circuit_open");
    gate.admit("good").await.unwrap().judge(BreakerVerdict::Fine);
    assert_eq!(gate.own_breaker(), BreakerState::Closed);
    clock.advance_ms(10_000);
    gate.admit("bad").await.unwrap().judge(BreakerVerdict::Fine);
    assert_eq!(gate.breaker_of("bad"), BreakerState::Closed);
}

fn with_breakers() -> AdmissionSettings {
    AdmissionSettings { concurrent_per_client: Some(4), breakers: true, ..limits(10, 50) }
}

#[tokio::test]
async fn one_client_cannot_take_all_places() {
    let (gate, _) = gate(with_breakers());
    let mut held = vec![gate.admit("flood").await.unwrap()];
    let mut second = Box::pin(gate.admit("flood"));
    assert!(poll_once(second.as_mut()).await.is_none(), "nobody knows it yet");
    held.pop().unwrap().judge(BreakerVerdict::Fine);
    held.push(second.await.unwrap());
    for _ in 1..4 {
        held.push(gate.admit("flood").await.unwrap());
    }
    let mut waiting: Vec<_> = (0..6).map(|_| Box::pin(gate.admit("flood"))).collect();
    for waiting in &mut waiting {
        assert!(poll_once(waiting.as_mut()).await.is_none());
    }
    gate.admit("honest").await.unwrap().judge(BreakerVerdict::Fine);
    // After an abusive run, the next starts only once the others have ended.
    held.pop().unwrap().judge(BreakerVerdict::Abusive);
    for left in [3, 2, 1] {
        assert_eq!((gate.counts().running, gate.counts().queued), (left, 6));
        held.pop().unwrap().judge(BreakerVerdict::Abusive);
    }
    assert_eq!((gate.counts().running, gate.counts().queued), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_begins_with_a_long_run_does_not_wait_for_its_end() {
    let (gate, clock) = gate(with_breakers());
    let _long = gate.admit("new").await.unwrap();
    let mut second = Box::pin(gate.admit("new"));
    let mut third = Box::pin(gate.admit("new"));
    assert!(poll_once(second.as_mut()).await.is_none());
    assert!(poll_once(third.as_mut()).await.is_none());
    clock.advance_ms(2000);
    let second = second.await.unwrap();
    assert!(poll_once(third.as_mut()).await.is_none(), "one in so many seconds");
    drop(second);
    clock.advance_ms(2000);
    third.await.unwrap().judge(BreakerVerdict::Fine);
    // One run was fine.
    let _others = [gate.admit("new").await.unwrap(), gate.admit("new").await.unwrap()];
}

#[tokio::test]
async fn a_client_that_is_shut_out_is_shut_out_of_the_queue() {
    let settings = AdmissionSettings { breakers: true, ..limits(1, 50) };
    let (gate, _) = gate(settings);
    for _ in 0..9 {
        gate.admit("bad").await.unwrap().judge(BreakerVerdict::Abusive);
    }
    let mut tenth = gate.admit("bad").await.unwrap();
    let mut waiting = Box::pin(gate.admit("bad"));
    assert!(poll_once(waiting.as_mut()).await.is_none());
    tenth.judge(BreakerVerdict::Abusive);
    drop(tenth);
    let refused = poll_once(waiting.as_mut()).await.unwrap().unwrap_err();
    assert_eq!((refused.code.as_str(), refused.retry_after_ms), ("circuit_open", 10_000));
    assert_eq!((gate.counts().running, gate.counts().queued), (0, 0));
}

#[tokio::test]
async fn failures_of_the_service_shut_out_all_clients_only_if_several_meet_them() {
    let settings = AdmissionSettings { breakers: true, ..Default::default() };
    let (gate, _) = gate(settings);
    for _ in 0..10 {
        gate.admit("a").await.unwrap().judge(BreakerVerdict::OurFault);
    }
    assert_eq!(gate.admit("a").await.unwrap_err().code.as_str(), "circuit_open");
    for _ in 0..3 {
        gate.admit("b").await.unwrap().judge(BreakerVerdict::OurFault);
    }
    assert_eq!(gate.admit("c").await.unwrap_err().code.as_str(), "service_unwell");
    assert_eq!(gate.own_breaker(), BreakerState::Open);
}

#[tokio::test]
async fn a_call_that_is_rejected_or_leaves_is_no_trial() {
    let settings = AdmissionSettings {
        breakers: true,
        rate_per_minute: Some(6),
        concurrent: Some(1),
        queue: Some(1),
        ..Default::default()
    };
    let (gate, clock) = gate(settings);
    for name in ["a", "b"] {
        for _ in 0..5 {
            gate.admit(name).await.unwrap().judge(BreakerVerdict::OurFault);
        }
    }
    assert_eq!(gate.own_breaker(), BreakerState::Open);
    clock.advance_ms(10_000);
    {
        let mut state = gate.shared.lock();
        let due = &mut state.clients.entry("over".to_owned()).or_default().due;
        let now = gate.shared.clock.now_ms();
        while Rate::per_minute(6).take(due, now).is_ok() {}
    }
    for _ in 0..5 {
        assert_eq!(gate.admit("over").await.unwrap_err().code.as_str(), "rate_limited");
    }
    // Ended without an outcome: cancelled before it ran.
    drop(gate.admit("c").await.unwrap());
    let running = gate.admit("d").await.unwrap();
    assert_eq!(gate.admit("e").await.unwrap_err().code.as_str(), "service_unwell");
    drop(running);
    gate.admit("e").await.unwrap().judge(BreakerVerdict::Fine);
    assert_eq!(gate.own_breaker(), BreakerState::Closed);
}
