import type { PagePart } from '../../dashboard/web/part.ts';
import { actions } from './page-words.ts';

export const approvalsPage: PagePart = { name: 'approvals', actions };
