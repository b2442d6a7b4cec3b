import { Icon } from '../../dashboard/web/kit/pill.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';

function LogoutButton() {
  // Only users of the login page can log out.
  const { session } = document.documentElement.dataset;
  if (session === undefined) return null;
  const text = `Log out ${decodeURIComponent(session)}`;
  const leave = async () => {
    await fetch('/flows/logout', { method: 'POST' }).catch(() => undefined);
    location.assign('/flows/login');
  };
  return (
    <button type="button" class="icon-button" title={text} onClick={leave}>
      <Icon name="exit" />
      <span class="unseen">{text}</span>
    </button>
  );
}

export const loginPage: PagePart = { name: 'login', at: { topBar: LogoutButton } };
