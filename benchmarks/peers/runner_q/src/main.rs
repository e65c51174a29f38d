//! usage: runner-q-bench POSTGRES_URL ACTIVITIES WORKERS
//! Prints one JSON object: {"enqueued_per_second", "processed_per_second"}.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use runner_q::storage::PostgresBackend;
use runner_q::{ActivityContext, ActivityHandler, ActivityHandlerResult, WorkerEngine};

struct CountOnly {
    done: Arc<AtomicUsize>,
}

#[async_trait]
impl ActivityHandler for CountOnly {
    async fn handle(
        &self,
        payload: serde_json::Value,
        _context: ActivityContext,
    ) -> ActivityHandlerResult {
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(Some(serde_json::json!(payload.to_string().len())))
    }

    fn activity_type(&self) -> String {
        "bench".to_string()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let total: usize = arguments[2].parse()?;
    let workers: usize = arguments[3].parse()?;

    let done = Arc::new(AtomicUsize::new(0));
    let backend = PostgresBackend::new(&arguments[1], "bench").await?;
    let mut engine = WorkerEngine::builder()
        .backend(Arc::new(backend))
        .queue_name("bench")
        .max_workers(workers)
        .build()
        .await?;
    engine.register_activity(
        "bench".to_string(),
        Arc::new(CountOnly { done: done.clone() }),
    );

    let executor = engine.get_activity_executor();
    let text = "x".repeat(64);
    let started = Instant::now();
    for _ in 0..total {
        executor
            .activity("bench")
            .payload(serde_json::json!(text))
            .execute()
            .await?;
    }
    let enqueue = started.elapsed();

    let started = Instant::now();
    let engine = Arc::new(engine);
    let running = engine.clone();
    let task = tokio::spawn(async move { running.start().await.map_err(|error| error.to_string()) });
    while done.load(Ordering::Relaxed) < total {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let process = started.elapsed();
    println!(
        "{{\"enqueued_per_second\": {:.1}, \"processed_per_second\": {:.1}}}",
        total as f64 / enqueue.as_secs_f64(),
        total as f64 / process.as_secs_f64()
    );
    engine.stop().await;
    let _ = tokio::time::timeout(Duration::from_secs(10), task).await;
    Ok(())
}
