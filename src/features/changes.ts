import type { ChangeRule } from '../deploys/changes/change.ts';
import { deployRulesChanges } from './deploy-rules/changes.ts';

/** What differences of two revisions mean to runs in flight. What none of these rules knows is a caution. */
export const changeRules: readonly (readonly ChangeRule[])[] = [deployRulesChanges];
