import type { CompareRevisions } from '../deploys/changes/revisions.ts';
import { deployRulesChanges } from './deploy-rules/changes.ts';

/** Rules that class the differences between two revisions for runs in flight. Without a rule, each is a caution. */
export const changeRules: readonly CompareRevisions[] = [deployRulesChanges];
