import { handlesOf } from '../part.ts';
import type { Inspection } from '../store.ts';
import type { Decision } from './decision.ts';
import { deployVerbs } from './deploys.ts';
import { flowVerbs } from './flows.ts';
import type { Port } from './port.ts';
import { revisionVerbs } from './revisions.ts';
import { routeVerbs } from './routes.ts';
import type { Verb, Verbs } from './verb.ts';
import { partVerbs } from './verbs.ts';

type InspectedName = Exclude<keyof Inspection, 'of' | 'close'>;

const { listDeployed, readLiveFlow } = deployVerbs;
const { findRevision, findSuperseded } = revisionVerbs;

const inspected: Verbs<InspectedName> = {
  listDeployed,
  findFlow: flowVerbs.findFlow,
  findRevision,
  readLiveFlow,
  findSuperseded,
  listRoutes: routeVerbs.listRoutes,
};

/** All members of an inspection except `close`, within one transaction. */
export function inspectionOf(
  port: Port,
  decide: <Value>(decision: Decision<Value>) => Value | Promise<Value>,
): Omit<Inspection, 'close'> {
  const members = Object.entries<Verb<InspectedName>>(inspected).map(([name, verb]) => [
    name,
    async (...given: Parameters<Inspection[InspectedName]>) => decide(verb.decide(port, ...given)),
  ]);
  const ofParts = Object.entries(partVerbs).map(([name, verb]) => [
    name,
    async (...given: never[]) => {
      if (verb.access === 'write') throw new Error(`${name} writes, and an inspection changes nothing`);
      return decide(verb.decide(port, ...given));
    },
  ]);
  return { ...Object.fromEntries(members), of: handlesOf(Object.fromEntries(ofParts)) };
}
