import { checkRows, purgeRows } from '../../store/decisions/activity-rows.ts';
import { storePart } from '../../store/decisions/part.ts';

export const activityStore = storePart({
  name: 'activity',
  verbs: {
    /**
     * Deletes at most `limit` rows at the old end of the chain, of interventions that began before an instant, and keeps where
     * the rest begins. Deletes none that is not what was written, nor what follows it: it is evidence.
     */
    purgeInterventions: { access: 'write', changes: null, decide: purgeRows },
    /** Checks the next rows of the chain; the first ones where no place is given. */
    checkInterventions: { access: 'read', decide: checkRows },
  },
});
