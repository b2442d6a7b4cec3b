import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Access, AccessRoute } from '../model/finding.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { OperatorsJudges } from '../store/store.ts';
import { type GatePreparer, gateChain } from './gates/index.ts';
import { registrationOf } from './schemes/resolve.ts';

/** How triggers are prepared and judged. */
export interface EntranceGates {
  readonly preparer: GatePreparer;
  /** The mode of triggers that set none. */
  readonly defaultMode: EnforcementMode;
  /** By trigger: the operator's earlier registrations, if they are known and differ from the preparer's. */
  readonly judges?: Readonly<Record<string, OperatorsJudges>> | undefined;
}

/** The trigger that a name leads or led to; without `trigger` if it is not served. */
export interface Route {
  readonly triggerKey: string;
  readonly trigger: WebhookTrigger | undefined;
  /** The gates and mode that judged the trigger while it had the name, if they were different. */
  readonly gates?: EntranceGates | undefined;
}

/** By each name of a flow, in lower case: its slugs, and its id. */
export type Routes = ReadonlyMap<string, Route>;

export interface AccessRequest {
  readonly after: Routes;
  /** Routes of the revision that it replaces; undefined for a new flow. */
  readonly before: Routes | undefined;
  /** Current or last routes of names, including other flows': one of them may give this one its slug. */
  readonly known: Routes;
  readonly gates: EntranceGates;
  /** The previous gates of the triggers, if they were different. */
  readonly gatesBefore?: EntranceGates | undefined;
}

/** How a deploy of one flow changes access. */
export interface AccessChange {
  readonly access: Access;
  /** Routes that accept more or less, or new ones without an enforced signature. */
  readonly routes: readonly AccessRoute[];
  /** By the path of a field: the effect of its change. */
  readonly fields: ReadonlyMap<string, Access>;
}

/** Compares who gets in. Pure. */
export interface AccessRules {
  /** Compares access by each name before and after. */
  changeOf(request: AccessRequest): AccessChange;
  /** The gates, and the mode, by which two triggers let in different deliveries; empty if both let in the same ones. */
  differencesOf(one: WebhookTrigger, other: WebhookTrigger, gates: EntranceGates): readonly string[];
}

const BUILT_IN: ReadonlySet<string> = new Set(gateChain().map(({ name }) => name));

/** The gates and the scheme of the operator that judge a trigger. */
export function judgesOf(trigger: WebhookTrigger, { chain, settings, prepare }: GatePreparer): OperatorsJudges {
  const names = prepare(trigger).gates.map(({ name }) => name);
  const { webhookSignatureScheme } = trigger.inputs;
  return {
    gates: names.filter((name) => !BUILT_IN.has(name) && chain.some((plugin) => plugin.name === name)),
    scheme: webhookSignatureScheme === undefined ? null : registrationOf(settings.schemes, webhookSignatureScheme),
  };
}
