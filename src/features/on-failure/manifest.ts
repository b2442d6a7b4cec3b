import { flowId } from '../../manifest/fields/values.ts';
import type { ManifestPart } from '../../manifest/manifest-part.ts';

export const onFailureManifest: ManifestPart = {
  name: 'on-failure',
  fields: {
    onFailure: {
      schema: flowId
        .optional()
        .describe('Id of the flow to start when a run fails or times out; its body is { run, step, error }.'),
      changed: (before, after) => ({
        rule: 'failure-flow-changed',
        message:
          after === undefined
            ? 'From now on, a failed run starts no other run.'
            : `A failed run starts ${before === undefined ? 'a run of another flow' : 'a run of a different flow'}.`,
        consequence: 'This applies to runs that start from now on: runs in flight follow their own revision.',
      }),
    },
  },
};
