import type { Logger } from 'pino';
import { answerOf } from '../../model/answer.ts';
import type { Clock } from '../../model/clock.ts';
import { greediestBut } from '../../model/greediest.ts';
import type { Json } from '../../model/json.ts';
import { triggerMapKey } from '../../model/trigger-name.ts';
import type { Store } from '../../store/store.ts';
import type { LiveEvent, LiveEvents } from '../../telemetry/events.ts';
import type { WebhookAnswer } from '../../webhooks/answers.ts';
import type { RunAnswers } from '../../webhooks/receive.ts';
import type { UnfitAnswers } from './unfit-answers.ts';

/** A delivery whose run is committed and whose sender waits for the output of one of its steps. */
interface Asked {
  readonly deliveryId: string;
  readonly flowId: string;
  readonly triggerKey: string;
  readonly runId: string;
  readonly stepKey: string;
  /** Monotonic milliseconds. */
  readonly until: number;
  /** The body is kept in memory while the sender waits. */
  readonly bodyBytes: number;
}

/** Answers deliveries with the output of a step of their run. */
interface FlowAnswers extends Pick<RunAnswers, 'end'> {
  /** Undefined for the fixed answer: late, failed, unfit, stopping, sender gone, too many waiting. Never rejects. */
  wait(asked: Asked): Promise<Omit<WebhookAnswer, 'deliveryId'> | undefined>;
}

/** The socket of a sender. */
interface Sender {
  readonly destroyed: boolean;
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
}

interface AnswerServices {
  /** By delivery id. If a sender hangs up, its wait ends. */
  readonly senders?: ReadonlyMap<string, Sender>;
  readonly store: Pick<Store, 'findStep' | 'findRun'>;
  readonly live: Pick<LiveEvents, 'subscribe'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly unfit: UnfitAnswers;
}

const RESPOND_SECONDS = 2.5;

/**
 * Each waiting sender holds a socket and a body, and a stop answers them all. Flows share the limits: if there is no
 * room, the flow whose senders take the most gives way.
 */
const ANSWER_LIMITS = { waiting: 200, bodyBytes: 16 * 1024 * 1024 };
const TOO_MANY = 'too many senders wait for an answer at once';
const MOST_ANSWER_BYTES = 256 * 1024;
/** Notices of other replicas may be lost, or arrive before this process listens. */
const LOOK_EVERY_MS = 250;

interface Waiting {
  readonly asked: Asked;
  /** Reads the step, and reads it once more if something happened meanwhile. */
  look(): void;
  settle(answer: Omit<WebhookAnswer, 'deliveryId'> | undefined): void;
}

export function createFlowAnswers(
  { store, live, clock, logger, unfit, senders }: AnswerServices,
  limits = ANSWER_LIMITS,
): FlowAnswers {
  const waiting = new Map<string, Waiting>();
  let bodyBytes = 0;
  let isEnded = false;
  let unsubscribe: (() => void) | undefined;

  const hear = ({ type, runId, data }: LiveEvent) => {
    if (type === 'run.changed' && runId === null) for (const each of waiting.values()) each.look();
    const own = runId === null ? undefined : waiting.get(runId);
    if (own === undefined) return;
    const isStep = type === 'step.completed' && data.stepKey === own.asked.stepKey;
    if (isStep || type === 'run.completed' || type === 'run.changed') own.look();
  };
  const note = ({ flowId, triggerKey, stepKey, runId }: Asked, why: string) => {
    const about = { flowId, triggerKey, stepKey, runId };
    unfit.note({ ...about, why });
    const cause = `no answer of ${triggerMapKey(about)} ${stepKey}`;
    logger.warn({ cause, ...about }, `a step gave no answer for its delivery: ${why}`);
  };
  const read = async (asked: Asked) => {
    const answer = await readAnswer(asked, store);
    if (typeof answer !== 'string') return answer;
    note(asked, answer);
    return null;
  };
  const begin = (asked: Asked, resolve: (answer: Omit<WebhookAnswer, 'deliveryId'> | undefined) => void): Waiting => {
    let isLooking = false;
    let isDue = false;
    const settle: Waiting['settle'] = (answer) => {
      if (!waiting.delete(asked.runId)) return;
      bodyBytes -= asked.bodyBytes;
      clearTimeout(late);
      clearInterval(looking);
      sender?.off('close', hungUp);
      resolve(answer);
    };
    const sender = senders?.get(asked.deliveryId);
    const hungUp = () => settle(undefined);
    sender?.once('close', hungUp);
    const look = async () => {
      while (isDue && waiting.has(asked.runId)) {
        isDue = false;
        const answer = await read(asked);
        if (answer !== undefined) settle(answer ?? undefined);
      }
    };
    const lookOnce = () => {
      isDue = true;
      if (isLooking) return;
      isLooking = true;
      look()
        .catch((error: unknown) => {
          // The run is committed; the sender gets the fixed answer if the store does not recover in time.
          logger.warn({ err: error, runId: asked.runId }, 'an answer could not be read');
        })
        .finally(() => {
          isLooking = false;
        });
    };
    const late = setTimeout(() => settle(undefined), Math.max(0, asked.until - clock.monotonic()));
    const looking = setInterval(lookOnce, LOOK_EVERY_MS);
    return { asked, look: lookOnce, settle };
  };

  const makeRoom = (asked: Asked): boolean => {
    for (;;) {
      const isFull = waiting.size >= limits.waiting;
      if (!isFull && bodyBytes + asked.bodyBytes <= limits.bodyBytes) return true;
      const other = givesWay(asked, [...waiting.values()], isFull ? () => 1 : (each) => each.bodyBytes);
      note((other ?? { asked }).asked, TOO_MANY);
      if (other === undefined) return false;
      other.settle(undefined);
    }
  };

  return {
    wait(asked) {
      const isGone = senders?.get(asked.deliveryId)?.destroyed === true;
      if (isEnded || isGone || asked.until <= clock.monotonic()) return Promise.resolve(undefined);
      if (!makeRoom(asked)) return Promise.resolve(undefined);
      // Subscribe at the first wait: other processes report their runs only while this process listens.
      unsubscribe ??= live.subscribe(hear);
      return new Promise((resolve) => {
        const own = begin(asked, resolve);
        bodyBytes += asked.bodyBytes;
        waiting.set(asked.runId, own);
        own.look();
      });
    },
    end() {
      isEnded = true;
      unsubscribe?.();
      for (const { settle } of waiting.values()) settle(undefined);
    },
  };
}

/** The answer, or why it is unusable (a text); undefined while there is none yet, null if there will be none. */
async function readAnswer(
  { runId, stepKey }: Asked,
  store: AnswerServices['store'],
): Promise<Omit<WebhookAnswer, 'deliveryId'> | string | null | undefined> {
  const limits = { valueBytes: MOST_ANSWER_BYTES, answerBytes: 2 * MOST_ANSWER_BYTES };
  let step = await store.findStep(runId, stepKey, limits);
  if (step?.status === undefined || step.status === 'Pending' || step.status === 'Running') {
    if ((await store.findRun(runId))?.status === 'Running') return undefined;
    // Step and run may both have ended since the step was read.
    step = await store.findStep(runId, stepKey, limits);
  }
  if (step?.status !== 'Succeeded') return null;
  return isCut(step.output) ? `it is larger than ${MOST_ANSWER_BYTES} bytes` : answerOf(step.output);
}

/** The oldest wait of the flow that takes the most; undefined if the flow of the new wait would take as much. */
function givesWay(asked: Asked, waiting: readonly Waiting[], sizeOf: (asked: Asked) => number): Waiting | undefined {
  const shareOf = (each: Asked) => ({ owner: each.flowId, size: sizeOf(each) });
  const most = greediestBut(
    shareOf(asked),
    waiting.map((each) => shareOf(each.asked)),
  );
  return waiting.find((each) => each.asked.flowId === most);
}

function isCut(output: Json | { readonly truncated: true } | null): boolean {
  return typeof output === 'object' && output !== null && 'truncated' in output && output.truncated === true;
}

/** Answers with the output of the step that the trigger names. */
export function answersBySteps(services: AnswerServices): RunAnswers {
  const { wait, end } = createFlowAnswers(services);
  return {
    async wait({ delivery, trigger: { trigger }, startedAt }, runId) {
      const { flowId, triggerKey, inputs } = trigger;
      if (inputs.webhookRespond === undefined) return undefined;
      const { step: stepKey, withinSeconds = RESPOND_SECONDS } = inputs.webhookRespond;
      const until = startedAt + withinSeconds * 1000;
      const bodyBytes = delivery.body.byteLength;
      const deliveryId = delivery.id;
      const answer = await wait({ deliveryId, flowId, triggerKey, runId, stepKey, until, bodyBytes });
      return answer && { ...answer, deliveryId };
    },
    end,
  };
}
