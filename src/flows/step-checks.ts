import { warningAt } from '../manifest/issues.ts';
import type { ManifestRules } from '../manifest/load.ts';

/** Warns of a flow without steps, which loads but does nothing. */
export const stepChecks: ManifestRules['checks'][number] = ({ manifest: { steps } }) =>
  Object.keys(steps).length === 0 ? [warningAt(['steps'], 'is empty: runs of this flow do nothing')] : [];
