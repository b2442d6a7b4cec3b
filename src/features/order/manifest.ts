import { z } from 'zod';
import { anyCase } from '../../manifest/fields/values.ts';
import type { ManifestPart } from '../../manifest/manifest-part.ts';
import { ON_ORDER_FAILURE } from '../../model/manifest.ts';
import { mistakeInKey } from './key-mistakes.ts';

export const orderManifest: ManifestPart = {
  name: 'order',
  fields: {
    serialize: {
      schema: z
        .string()
        .optional()
        .describe(
          'A CEL expression over `trigger`: runs for which it gives the same value run one at a time, in the order of their arrival.',
        ),
      mistake: ({ serialize }) => (serialize === undefined ? undefined : mistakeInKey(serialize)),
      changed: (before, after) => ({
        rule: 'serialize-changed',
        class: 'caution',
        message:
          after === undefined
            ? 'Runs of one key may overlap from now on.'
            : before === undefined
              ? 'Runs of one key run one at a time from now on.'
              : 'What gives runs their keys changed.',
        consequence:
          'A run gets its key when it starts: runs in flight keep theirs, or have none. So until they have ended, a run that ' +
          'starts from now on may overlap with one that is in flight, or wait for one of another meaning with the same key.',
      }),
    },
    serializeOnFailure: {
      schema: anyCase(ON_ORDER_FAILURE)
        .optional()
        .describe(
          'What a failed run means for those of its key: continue, the default, starts the next one; stop starts none until the ' +
            'run succeeds by a retry or is passed over by hand.',
        ),
      mistake: ({ serialize }) =>
        serialize === undefined ? 'has no meaning without `serialize`, which gives runs their keys' : undefined,
      changed: (before, after) => ({
        rule: 'serialize-on-failure-changed',
        class: (before === 'stop') === (after === 'stop') ? 'safe' : 'caution',
        message:
          after === 'stop'
            ? 'From now on, a failed run holds its key: no other run of the key starts until it succeeds or is released.'
            : 'From now on, the next run of a key starts even if the last one failed.',
        consequence:
          'Each run does as the revision that it started with says: runs in flight are not affected, and a key that a failed ' +
          'run holds stays held until that run succeeds by a retry or is released.',
      }),
    },
  },
};
