//! The process of an original, and what both sides answer.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The answer of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The results of `test`, the objects of `expand`, or an answer for each request, in one order for
    /// both programs.
    Found(Vec<Value>),
    /// It refused, with this text.
    Refused(String),
    /// It crashed or took too long.
    Failed(String),
}

/// The original, one process for many programs.
pub(crate) struct Original {
    program: PathBuf,
    running: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Original {
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), running: None }
    }

    /// The answer of the original to the question, or that it failed or refused.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or answers something else than JSON.
    pub(crate) fn ask(&mut self, question: &Value) -> Result<Result<Value, Answer>> {
        if self.running.is_none() {
            let mut child = Command::new(&self.program)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .with_context(|| format!("start {}", self.program.display()))?;
            let input = child.stdin.take().context("the original has no input")?;
            let output = child.stdout.take().context("the original has no output")?;
            self.running = Some((child, input, BufReader::new(output)));
        }
        let (_, input, output) = self.running.as_mut().context("the original is not running")?;
        let asked = writeln!(input, "{question}");
        let mut line = String::new();
        if asked.is_err() || output.read_line(&mut line)? == 0 {
            self.stop();
            return Ok(Err(Answer::Failed("the process ended".to_owned())));
        }
        let answer: Value = serde_json::from_str(&line).context("the original's answer")?;
        if answer["timeout"] == true {
            self.stop();
            return Ok(Err(Answer::Failed("it took too long".to_owned())));
        }
        if let Some(cause) = answer["panic"].as_str() {
            return Ok(Err(Answer::Failed(cause.to_owned())));
        }
        if let Some(text) = answer["error"].as_str() {
            return Ok(Err(Answer::Refused(text.trim().to_owned())));
        }
        Ok(Ok(answer))
    }

    fn stop(&mut self) {
        if let Some((mut child, ..)) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        self.stop();
    }
}
