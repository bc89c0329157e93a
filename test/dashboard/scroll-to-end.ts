import type { Page } from "playwright-core";

/** Rows of the lists of a screen. */
export const ROW = "[data-screen] li[data-id]";

/** Scrolls a list to its end again and again until it holds all that it should; gives the most rows that were in the page. */
export async function scrollToEnd(page: Page, label: string, isDone: () => Promise<boolean>): Promise<number> {
  const list = page.getByRole("region", { name: label });
  let most = 0;
  while (!(await isDone())) {
    most = Math.max(most, await page.locator(ROW).count());
    await list.evaluate(async (element) => {
      // One frame at each place, so that the rows between are drawn as well.
      for (let step = 0; step < 5; step++) {
        element.scrollTo(0, element.scrollTop + (element.scrollHeight - element.scrollTop) / 2);
        await new Promise(requestAnimationFrame);
      }
      element.scrollTo(0, element.scrollHeight);
      await new Promise(requestAnimationFrame);
    });
  }
  console.log(`      at most ${most} rows in the document: ${label.toLowerCase()}`);
  return most;
}

/** Returns a test for a feed that shows at least so many decisions. */
export const showsDecisions = (page: Page, count: number) => async (): Promise<boolean> =>
  Number((await page.locator(".feed-end").innerText()).replaceAll(/\D/g, "")) >= count;
