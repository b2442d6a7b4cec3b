import type { Inspection } from '../store.ts';
import { activityVerbs } from './activity.ts';
import type { Decision } from './decision.ts';
import { deployVerbs } from './deploys.ts';
import { flowVerbs } from './flows.ts';
import { keyVerbs } from './keys.ts';
import { payloadVerbs } from './payloads.ts';
import type { Port } from './port.ts';
import { revisionVerbs } from './revisions.ts';
import { routeVerbs } from './routes.ts';
import type { Verb, Verbs } from './verb.ts';

type InspectedName = Exclude<keyof Inspection, 'close'>;

const { listDeployed, readLiveFlow } = deployVerbs;
const { findRevision, findSuperseded } = revisionVerbs;
const { listKeyFigures, listKeyUsers } = keyVerbs;
const { listInterventions, checkInterventions } = activityVerbs;

const inspected: Verbs<InspectedName> = {
  listDeployed,
  findFlow: flowVerbs.findFlow,
  findRevision,
  readLiveFlow,
  findSuperseded,
  listRoutes: routeVerbs.listRoutes,
  sampleDeliveries: payloadVerbs.sampleDeliveries,
  listKeyFigures,
  listKeyUsers,
  listInterventions,
  checkInterventions,
};

/** All members of an inspection but its end, within one transaction. */
export function inspectionOf(
  port: Port,
  decide: <Value>(decision: Decision<Value>) => Value | Promise<Value>,
): Pick<Inspection, InspectedName> {
  const members = Object.entries<Verb<InspectedName>>(inspected).map(([name, verb]) => [
    name,
    async (...given: Parameters<Inspection[InspectedName]>) => decide(verb.decide(port, ...given)),
  ]);
  return Object.fromEntries(members);
}
