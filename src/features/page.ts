import type { PagePart } from '../dashboard/web/part.ts';
import { activityPage } from './activity/page.tsx';
import { alertsPage } from './alerts/page.tsx';
import { approvalsPage } from './approvals/page.tsx';
import { attentionPage } from './attention/page.tsx';
import { booksPage } from './books/page.tsx';
import { bulkPage } from './bulk/page.tsx';
import { coalescePage } from './coalesce/page.tsx';
import { consumersPage } from './consumers/page.tsx';
import { deliveriesPage } from './deliveries/page.tsx';
import { deployPagePage } from './deploy-page/page.tsx';
import { driftPage } from './drift/page.tsx';
import { evidencePage } from './evidence/page.tsx';
import { figuresPage } from './figures/page.tsx';
import { flowsPage } from './flows/page.tsx';
import { holdPage } from './hold/page.tsx';
import { hostsPage } from './hosts/page.tsx';
import { keysPage } from './keys/page.tsx';
import { loginPage } from './login/page.tsx';
import { overviewPage } from './overview/page.tsx';
import { publishersPagePage } from './publishers-page/page.tsx';
import { reconcilePage } from './reconcile/page.tsx';
import { rehearsalPage } from './rehearsal/page.tsx';
import { replicasPage } from './replicas/page.tsx';
import { reviewPage } from './review/page.tsx';
import { runsPage } from './runs/page.tsx';
import { schedulesPage } from './schedules/page.tsx';
import { sidePanelPage } from './side-panel/page.tsx';
import { signalsPage } from './signals/page.tsx';

/** Parts of the page. Navigation, panels and views have this order. */
export const pageParts: readonly PagePart[] = [
  overviewPage,
  attentionPage,
  deliveriesPage,
  flowsPage,
  publishersPagePage,
  runsPage,
  schedulesPage,
  hostsPage,
  activityPage,
  figuresPage,
  booksPage,
  alertsPage,
  consumersPage,
  replicasPage,
  evidencePage,
  driftPage,
  reviewPage,
  keysPage,
  deployPagePage,
  rehearsalPage,
  bulkPage,
  reconcilePage,
  approvalsPage,
  sidePanelPage,
  signalsPage,
  coalescePage,
  holdPage,
  loginPage,
];
