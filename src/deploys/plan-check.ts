import type { ManifestIssue } from '../manifest/issues.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import type { Store } from '../store/store.ts';

/** Says of a flow that is planned to be deployed what may be a mistake, by what is stored. */
export type PlanCheck = (flow: LoadedFlow, store: Pick<Store, 'of'>) => Promise<ManifestIssue[]>;
