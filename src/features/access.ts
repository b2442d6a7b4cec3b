import type { AccessRules } from '../webhooks/access-rules.ts';
import { deployRulesAccess } from './deploy-rules/access.ts';

/** The rules that compare who gets in by a webhook before and after a deploy. */
export const accessRules: readonly AccessRules[] = [deployRulesAccess];
