import type { Gate, GatePlugin, WebhookTrigger } from '../gate.ts';
import { ipGate } from './ip.ts';
import { operatorGate } from './operator-gate.ts';
import { rateLimitGate } from './rate-limit.ts';
import { replayGate } from './replay.ts';
import { type SignatureSettings, signatureGate } from './signature.ts';

/** A built-in plugin may keep something about all triggers together. */
interface ChainedPlugin extends GatePlugin<SignatureSettings> {
  /** Called with every trigger in force whenever they change, after all their gates were prepared. */
  inForce?(triggers: readonly WebhookTrigger[], settings: SignatureSettings): void;
}

/** Every kind of gate, in the order in which they judge. */
export type GateChain = readonly ChainedPlugin[];

/**
 * The built-in gates, the cheap before the dear, then the operator's own. A chain remembers rate limits: the process has
 * one, which outlives every deploy. Throws a TypeError where two gates share a name.
 */
export function gateChain(operatorGates: readonly GatePlugin<SignatureSettings>[] = []): GateChain {
  const chain = [ipGate, rateLimitGate(), signatureGate, replayGate, ...operatorGates.map(operatorGate)];
  const twice = chain.find(({ name }, at) => chain.findIndex((gate) => gate.name === name) < at);
  if (twice === undefined) return chain;
  throw new TypeError(`two gates have the name "${twice.name}"; results and facts are listed by the name of the gate`);
}

/** The gates that a trigger configures; throws `GateConfigurationError` where its fields make no sense. */
export function prepareGates(chain: GateChain, trigger: WebhookTrigger, settings: SignatureSettings): Gate[] {
  return chain.map((plugin) => plugin.prepare(trigger, settings)).filter((gate) => gate !== undefined);
}
