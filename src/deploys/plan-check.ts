import type { ManifestIssue } from '../manifest/issues.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import type { Store } from '../store/store.ts';

/** Warns about possible mistakes in a planned flow, based on stored data. */
export type PlanCheck = (flow: LoadedFlow, store: Pick<Store, 'of'>) => Promise<ManifestIssue[]>;
