import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import type { Port } from '../../store/decisions/port.ts';
import { uuidOf } from '../../store/uuids.ts';
import { addState } from '../activity/rows.ts';

export const bulkStore = storePart({
  name: 'bulk',
  verbs: {
    /** Adds details to an intervention, such as its progress; replaces those with the same name. */
    noteIntervention: {
      access: 'write',
      changes: null,
      *decide(port: Port, { id, details }: { id: string; details: Readonly<Record<string, string>> }): Decision<void> {
        yield* addState(port, uuidOf(id), (kept) => ({
          details: JSON.stringify({ ...JSON.parse(kept.details), ...details }),
        }));
      },
    },
  },
});
