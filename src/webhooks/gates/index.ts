import { isDeepStrictEqual } from 'node:util';
import { triggerMapKey } from '../../model/trigger-name.ts';
import { type Gate, GateConfigurationError, type GatePlugin, type WebhookTrigger } from '../gate.ts';
import { type ResolvedScheme, resolveScheme } from '../schemes/resolve.ts';
import { BODY_SCHEMA, bodySchemaGate } from './body-schema.ts';
import { ipGate } from './ip.ts';
import { operatorGate } from './operator-gate.ts';
import { limitsUnverified, rateLimitGate, UNVERIFIED_RATE_LIMIT, unverifiedRateLimitGate } from './rate-limit.ts';
import { replayGate } from './replay.ts';
import { type SignatureSettings, signatureGate } from './signature.ts';

/** A built-in plugin; it may keep state about all triggers together. */
interface ChainedPlugin extends GatePlugin<SignatureSettings> {
  /** Called with every trigger in force whenever they change, after all their gates were prepared. */
  inForce?(triggers: readonly WebhookTrigger[], settings: SignatureSettings): void;
}

/** Every kind of gate, in the order in which they judge. */
type GateChain = readonly ChainedPlugin[];

/**
 * The built-in gates, cheap before costly, then the operator's gates. The chain holds the state of rate limits, so the
 * process has one chain, which outlives every deploy. Throws a TypeError if two gates share a name.
 */
export function gateChain(operatorGates: readonly GatePlugin<SignatureSettings>[] = []): GateChain {
  const chain = [
    ipGate,
    unverifiedRateLimitGate(),
    rateLimitGate(),
    signatureGate,
    replayGate,
    bodySchemaGate(),
    ...operatorGates.map(operatorGate),
  ];
  const twice = chain.find(({ name }, at) => chain.findIndex((gate) => gate.name === name) < at);
  if (twice === undefined) return chain;
  throw new TypeError(`two gates have the name "${twice.name}"; results and facts are listed by the name of the gate`);
}

/**
 * The chain in the order in which it judges the deliveries of one trigger. If unverified deliveries have their own
 * limit, the trigger's limit comes after the signature, so that only verified deliveries use its permits.
 */
function orderOf(chain: GateChain, { inputs }: WebhookTrigger): GateChain {
  if (!limitsUnverified(inputs)) return chain;
  const isLimit = ({ name }: ChainedPlugin) => name === 'rateLimit';
  return chain
    .filter((plugin) => !isLimit(plugin))
    .flatMap((plugin) => (plugin.name === signatureGate.name ? [plugin, ...chain.filter(isLimit)] : [plugin]));
}

/** Names of all gates that may judge the trigger's deliveries, configured or not, in the order in which they do. */
export function gateNames(chain: GateChain, trigger: WebhookTrigger): string[] {
  const names = orderOf(chain, trigger).map(({ name }) => name);
  const isOffered = (name: string) =>
    (name !== UNVERIFIED_RATE_LIMIT || limitsUnverified(trigger.inputs)) &&
    (name !== BODY_SCHEMA || trigger.bodySchema !== undefined);
  return names.filter(isOffered);
}

/** The configured gates of a trigger, ready to judge its deliveries. */
interface TriggerGates {
  readonly scheme: ResolvedScheme | undefined;
  /** In the order of the chain; complete only if there are no mistakes. */
  readonly gates: readonly Gate[];
  /** Fields that make no sense, the first mistake of each gate. */
  readonly mistakes: readonly GateConfigurationError[];
}

/**
 * Prepares the gates of each trigger once: the check and the deploy of a manifest share them, and a manifest that is
 * read again shares the gates of equal triggers that are in force.
 */
export interface GatePreparer {
  readonly chain: GateChain;
  readonly settings: SignatureSettings;
  /** Triggers never change: a trigger with a different field or key is a new object, and gets its own gates. */
  prepare(trigger: WebhookTrigger): TriggerGates;
  /** Called with every trigger in force whenever they change, after all their gates were prepared. */
  inForce(triggers: readonly WebhookTrigger[]): void;
  /** Whether the scheme that a trigger names is known, so that signatures are checked. */
  isSigned(trigger: WebhookTrigger): boolean;
  /** Prepares the same gates, with some settings changed. */
  under(settings: Partial<SignatureSettings>): GatePreparer;
}

export function gatePreparer(chain: GateChain, settings: SignatureSettings): GatePreparer {
  const prepared = new WeakMap<WebhookTrigger, TriggerGates>();
  let served = new Map<string, WebhookTrigger>();
  const sameInForce = (trigger: WebhookTrigger) => {
    const other = served.get(triggerMapKey(trigger));
    return other !== undefined && isDeepStrictEqual(other, trigger) ? prepared.get(other) : undefined;
  };
  return {
    chain,
    settings,
    prepare(trigger) {
      const known = prepared.get(trigger) ?? sameInForce(trigger) ?? prepareGates(chain, trigger, settings);
      prepared.set(trigger, known);
      return known;
    },
    inForce(triggers) {
      for (const plugin of chain) plugin.inForce?.(triggers, settings);
      served = new Map(triggers.map((trigger) => [triggerMapKey(trigger), trigger]));
    },
    isSigned: ({ inputs, keys }) => resolveScheme(settings.schemes, inputs, keys) !== undefined,
    under: (others) => gatePreparer(chain, { ...settings, ...others }),
  };
}

function prepareGates(chain: GateChain, trigger: WebhookTrigger, settings: SignatureSettings): TriggerGates {
  const gates: Gate[] = [];
  const mistakes: GateConfigurationError[] = [];
  for (const plugin of orderOf(chain, trigger)) {
    try {
      const gate = plugin.prepare(trigger, settings);
      if (gate !== undefined) gates.push(gate);
    } catch (error) {
      if (!(error instanceof GateConfigurationError)) throw error;
      mistakes.push(error);
    }
  }
  const scheme = mistakes.length > 0 ? undefined : resolveScheme(settings.schemes, trigger.inputs, trigger.keys);
  return { scheme, gates, mistakes };
}
