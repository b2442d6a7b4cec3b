import type { ChangeRule } from '../deploys/changes/change.ts';
import { deployRulesChanges } from './deploy-rules/changes.ts';

/** Rules that class a difference between two revisions for runs in flight. Without a rule, it is a caution. */
export const changeRules: readonly (readonly ChangeRule[])[] = [deployRulesChanges];
