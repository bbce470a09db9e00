//! Answers questions about one pod. Unary calls and the questions of a stream are all asked here.

use std::pin::Pin;
use std::sync::Arc;

use prost::bytes::Bytes;
use tonic::{Request, Response};

use super::base::Service;
use super::decide::{AnswerBy, Deciding, ValidDecision};
use super::dialect::Checker;
use super::error::Error;
use super::kept_questions::CompiledQuestion;
use super::noted::{Loggable, MeasuredAnswer, logged};
use super::pod_request::{DecisionFields, Outline, PodRequest, fields_of};
use super::request_context::{OpenedCall, RequestContext, open_later};
use super::written::{Writable, Written};
use super::{permission, request};
use crate::access::Role;
use crate::decision_log::Pending;
use crate::matching::Path;
use crate::proto::encoded::Encoded;
use crate::proto::v1;

/// The answer of a question, or the future of it.
pub enum Answered<T> {
    /// The answer came at once, as most do.
    Now(T),
    /// The answer comes once the snapshot has reached the revision, or from another thread.
    Later(Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>),
}

impl<T> Answered<T> {
    /// The answer, awaited if needed.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`] and those of waiting for a revision.
    pub async fn wait(self) -> Result<T, Error> {
        match self {
            Self::Now(answer) => Ok(answer),
            Self::Later(answer) => answer.await,
        }
    }
}

/// Writes the answer to `Filter`.
pub const FILTER: AnswerBy<Written<v1::FilterResponse>> =
    |question, terms, read_view| question.filter(terms, read_view);

/// Writes the answer to `Score`.
pub const SCORE: AnswerBy<Written<v1::ScoreResponse>> =
    |question, terms, read_view| question.score(terms, read_view);

/// A request that was read.
struct ReadRequest<'e> {
    fields: DecisionFields,
    pod: AskedPod<'e>,
}

/// The pod of a request.
enum AskedPod<'e> {
    /// A compiled pod that was asked about before.
    Kept(Arc<CompiledQuestion>),
    /// A pod that is to be checked, and offered to the kept questions.
    New(Box<Option<v1::Pod>>, Option<Outline<'e>>),
}

/// A valid request, and its place in the decision log, if decisions are logged.
pub struct ValidQuestion {
    /// The question.
    pub request: ValidDecision,
    /// The queue that takes the record of the decision.
    pub pending: Option<Pending>,
}

impl Service {
    /// Answers a call about one pod.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub(super) async fn answer<M: PodRequest, A: Writable + 'static>(
        &self,
        request: Request<Bytes>,
        answer: AnswerBy<Written<A>>,
    ) -> Result<Response<Bytes>, Error> {
        let OpenedCall { request, by } = open_later(request);
        let answered = self.ask(&Encoded::<M>::new(request), &by, answer)?;
        let answer = answered.wait().await?;
        Ok(answer.map(|written| written.finish().into_bytes()))
    }

    /// Answers a question about one pod.
    ///
    /// # Errors
    /// The reason why the question is refused.
    pub(super) fn ask<M, A>(
        &self,
        encoded: &Encoded<M>,
        by: &RequestContext,
        answer: AnswerBy<A>,
    ) -> Result<Answered<Response<A>>, Error>
    where
        M: PodRequest,
        A: MeasuredAnswer + Loggable + Send + 'static,
    {
        let ValidQuestion { request, pending } = self.question(encoded, by)?;
        let Some(on) = self.reached(&request.asked)? else {
            let (service, by) = (self.clone(), by.clone());
            return Ok(Answered::Later(Box::pin(async move {
                let on = service.reach(&request.asked, by.deadline).await?;
                let deciding = Deciding {
                    request,
                    on,
                    answer,
                };
                let answer = deciding.decide(&service.executor, &by).await?;
                Ok(logged(pending, answer))
            })));
        };
        let deciding = Deciding {
            request,
            on,
            answer,
        };
        Ok(match deciding.at_once(&deciding.on.state()) {
            Ok(answer) => Answered::Now(logged(pending, answer)),
            Err(_) => {
                let (executor, by) = (self.executor.clone(), by.clone());
                Answered::Later(Box::pin(async move {
                    let answer = deciding
                        .decide_aside(&executor, &by, |answer| answer)
                        .await?;
                    Ok(logged(pending, answer))
                }))
            }
        })
    }

    /// A valid question about one pod, by a caller that may ask it.
    ///
    /// # Errors
    /// The reason why the question is refused.
    pub(super) fn question<M: PodRequest>(
        &self,
        encoded: &Encoded<M>,
        by: &RequestContext,
    ) -> Result<ValidQuestion, Error> {
        let asked = self.read(encoded, by)?;
        permission::allow(by.caller.as_ref(), Role::Reader, &asked.fields.snapshot)?;
        by.look()?;
        let pending = self.begin(|| encoded.decode().ok());
        let limits = self.registry.limits();
        let question = match asked.pod {
            AskedPod::Kept(question) => {
                self.registry.counters().question_hits.count_one();
                Ok(question)
            }
            AskedPod::New(pod, outline) => {
                self.registry.counters().question_misses.count_one();
                let compiled =
                    (Checker::of(asked.fields.dialect).pod)(*pod, limits, Path::root("pod"));
                compiled.map(|compiled| {
                    let question = CompiledQuestion::of(compiled);
                    if let Some(outline) = outline {
                        self.questions.offer(outline, &question);
                    }
                    question
                })
            }
        };
        Ok(ValidQuestion {
            request: ValidDecision::of(asked.fields, question, encoded.entries(), limits)?,
            pending,
        })
    }

    /// Reads a request: without its pod, if a question about the same pod is kept and the caller
    /// may read the snapshot. The kept pod was decoded and checked, so refusals do not depend on
    /// which questions are kept.
    fn read<'e, M: PodRequest>(
        &self,
        encoded: &'e Encoded<M>,
        by: &RequestContext,
    ) -> Result<ReadRequest<'e>, Error> {
        let caller = by.caller.as_ref();
        let may_ask = |outline: &Outline<'_>| {
            let name = str::from_utf8(outline.snapshot).map(request::named_or_default);
            name.is_ok_and(|name| permission::may_read(caller, name))
        };
        let outline = Outline::of(&encoded.bytes).filter(may_ask);
        if let Some(outline) = outline
            && let Some(question) = self.questions.find(outline)
            && let Some(fields) = fields_of(encoded)
        {
            let pod = AskedPod::Kept(question);
            return Ok(ReadRequest { fields, pod });
        }
        let (pod, fields) = by.decode::<M>(encoded.bytes.clone())?.parts();
        Ok(ReadRequest {
            fields,
            pod: AskedPod::New(Box::new(pod), outline),
        })
    }
}
