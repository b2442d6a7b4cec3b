import { type Gate, GateConfigurationError, type GatePlugin } from '../gate.ts';
import { ANSWER_TIME_LIMIT_MS, answerInTime, failureOf } from './answer-in-time.ts';
import type { SignatureSettings } from './signature.ts';

/**
 * A gate of the operator's, held to what a chain relies on: it bears its plugin's name, answers in time, and where it
 * cannot be prepared the manifest does not load, with a line that names it.
 */
export function operatorGate(plugin: GatePlugin<SignatureSettings>): GatePlugin<SignatureSettings> {
  const { name } = plugin;
  return {
    name,
    prepare(trigger, settings) {
      const gate = prepared(plugin, () => plugin.prepare(trigger, settings));
      if (gate === undefined) return undefined;
      const limitMs = settings.verifierTimeLimitMs ?? ANSWER_TIME_LIMIT_MS;
      const check: Gate['check'] = (delivery, evidence) => answerInTime(() => gate.check(delivery, evidence), limitMs);
      if (gate.rehearse === undefined) return { name, check };
      const rehearse = gate.rehearse.bind(gate);
      return {
        name,
        check,
        rehearse: (delivery, evidence) => answerInTime(() => rehearse(delivery, evidence), limitMs),
      };
    },
  };
}

function prepared({ name }: GatePlugin<SignatureSettings>, prepare: () => unknown): Gate | undefined {
  let gate: unknown;
  try {
    gate = prepare();
  } catch (error) {
    if (error instanceof GateConfigurationError) throw error;
    throw new GateConfigurationError(
      undefined,
      `${failureOf(`the gate "${name}"`, error)} in prepare${placeOf(error)}`,
    );
  }
  if (gate === undefined || gate === null) return undefined;
  if (isGate(gate)) return gate;
  // A gate that is not there by mistake must not pass for one that the trigger does not configure.
  const message = `the gate "${name}" is not usable: prepare must return { name, check } or nothing, and not a promise`;
  throw new GateConfigurationError(undefined, message);
}

/** Plain JavaScript may return anything. */
function isGate(value: unknown): value is Gate {
  return typeof value === 'object' && value !== null && 'check' in value && typeof value.check === 'function';
}

/** Where an error was thrown; its message may quote a key. */
function placeOf(error: unknown): string {
  const [, place] = /\n\s+at [^\n]*?((?:file:\/\/)?\/[^\n()]+:\d+:\d+)\)?/.exec((error as Error)?.stack ?? '') ?? [];
  return place === undefined ? '' : `, at ${place}`;
}
