import type { GatePlugin, GateSettings, Verdict } from '../gate.ts';

/**
 * Whether the body fits the schema that the trigger names. It judges what is authentic and new, so it comes last of the
 * built-in gates. A body that says it is JSON and is not is refused behind the gates, in every mode.
 */
export const bodySchemaGate: GatePlugin<GateSettings> = {
  name: 'bodySchema',
  prepare({ bodySchema }) {
    if (bodySchema === undefined) return undefined;
    return {
      name: 'bodySchema',
      check({ body, headers }): Verdict {
        if ('error' in bodySchema) return { passed: false, reason: 'verifier_error', detail: bodySchema.error };
        const mistakes = bodySchema.mistakesIn(body, headers['content-type']);
        if (mistakes.length === 0) return { passed: true };
        return { passed: false, reason: 'body_schema', detail: mistakes.join('; ') };
      },
    };
  },
};
