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

/** A simulated run that sends nothing out: its outside calls get given answers. */
export interface AnsweredRun extends Simulation {
  /** In the order made; ids of the simulation's runs are replaced by `[run]` and `[run go]`. */
  readonly calls: readonly Call[];
}

interface AnsweredServices {
  /** An empty store, for this simulator alone; the caller closes it. */
  readonly store: Store;
  readonly flow: LoadedFlow;
  /** All flows that the flow's steps or failure may start, directly or indirectly. */
  readonly flows: readonly LoadedFlow[];
  /** The handlers of a service; those that call out are replaced. */
  readonly handlers: HandlerTable;
}

/**
 * Simulates runs of a flow without reading a secret or sending a request. All steps that call out, including operator
 * code, get the given answers. One run at a time.
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

/** The call with stable names in place of run ids. */
function named(call: Call, simulator: Pick<Simulator, 'runNames'>): Call {
  const names = simulator.runNames();
  const name = (text: string) => names.reduce((renamed, [id, its]) => renamed.replaceAll(id, its), text);
  return mapStrings(call as unknown as Json, name) as unknown as Call;
}

/** An answer from a file; if it has a request, it answers only that request. */
interface GivenAnswer extends Answer {
  readonly request?: Request | undefined;
}

/** Answers by step path, first attempt first. */
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
