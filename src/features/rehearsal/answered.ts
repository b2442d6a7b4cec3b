import { mapStrings } from '../../expressions/json-path.ts';
import type { HandlerTable } from '../../flows/handlers/index.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { isSame, type Json } from '../../model/json.ts';
import type { Store } from '../../store/store.ts';
import { type Answer, type AnswerCall, answeredHandlers, type Call, type Request } from './calls.ts';
import { hideSecrets } from './hidden-secrets.ts';
import { createSimulator, type SimulatedStart, type Simulation, type Simulator } from './simulator.ts';

export interface AnsweredStart extends SimulatedStart {
  readonly answer: AnswerCall;
}

/** A simulated run of which nothing leaves: its steps that call out are answered. */
export interface AnsweredRun extends Simulation {
  /** In the order in which they were made, with ids of its runs as `[run]` and `[run go]`. */
  readonly calls: readonly Call[];
}

interface AnsweredServices {
  /** An empty one, for this simulator alone; whoever opened it closes it. */
  readonly store: Store;
  readonly flow: LoadedFlow;
  /** Those that its steps and its failure may start, and those in turn. */
  readonly flows: readonly LoadedFlow[];
  /** Those of a service: what of them calls out is replaced. */
  readonly handlers: HandlerTable;
}

/**
 * Simulates runs of a flow without a secret and without a request: no value of a secret is read, and what calls out, code
 * of the operator's included, gets the answers that are given. One run at a time.
 */
export async function createAnsweredSimulator({ store, flow, flows, handlers }: AnsweredServices): Promise<{
  run(start: AnsweredStart): Promise<AnsweredRun>;
}> {
  let answer: AnswerCall = () => undefined;
  let calls: Call[] = [];
  const simulator = await createSimulator({
    store,
    flow: hideSecrets(flow, handlers),
    flows: flows.map((each) => hideSecrets(each, handlers)),
    handlers: answeredHandlers(handlers, {
      answer({ runId, stepKey, ...about }) {
        const call = named({ path: simulator.pathOf(runId, stepKey), ...about }, simulator);
        calls.push(call);
        return answer(call);
      },
    }),
    readSecret: () => ({ error: 'is a secret, and none is read here' }),
  });
  return {
    async run(start) {
      answer = start.answer;
      calls = [];
      return { ...(await simulator.run(start)), calls };
    },
  };
}

/** With names that are the same every time in place of the ids of runs. */
function named(call: Call, simulator: Pick<Simulator, 'runNames'>): Call {
  const names = simulator.runNames();
  const name = (text: string) => names.reduce((renamed, [id, its]) => renamed.replaceAll(id, its), text);
  return mapStrings(call as unknown as Json, name) as unknown as Call;
}

/** An answer that a file gives; with a request, for that request alone. */
interface GivenAnswer extends Answer {
  readonly request?: Request | undefined;
}

/** Answers by path of the step, the first attempt first. */
export type AnswerTable = Readonly<Record<string, readonly GivenAnswer[]>>;

export function answersFrom(table: AnswerTable): AnswerCall {
  return ({ path, attempt, request }) => {
    const given = Object.hasOwn(table, path) ? table[path]?.[attempt - 1] : undefined;
    const isForIt = given?.request === undefined || isSameRequest(given.request, request);
    return isForIt ? given : undefined;
  };
}

export function isSameRequest(one: Request | null, other: Request | null): boolean {
  return isSame(one as Json, other as Json);
}
